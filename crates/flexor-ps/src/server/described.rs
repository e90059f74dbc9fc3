//! A server in words: what it waits for, and who waits for it.
//!
//! Of partitions where nothing is under way only the number is told, so that what holds a job up stands out.

use std::fmt;
use std::sync::atomic::Ordering;

use super::Server;
use super::copies::Incoming;
use super::post::{Post, Role};
use crate::placement::PartitionId;

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut quiet = 0;
        write!(f, "{} by map {}", self.0.me, self.0.epoch.load(Ordering::Acquire))?;
        for link in self.0.links.all() {
            write!(f, "; {link}")?;
        }
        for id in PartitionId::all() {
            let incoming = self.0.copies.of(id).lock();
            let post = self.0.posts.lock(id);
            match is_quiet(&post, &incoming) {
                true => quiet += 1,
                false => write!(f, "\n  {id}: {post}, {incoming}")?,
            }
        }
        write!(f, "\n  {quiet} partitions where nothing is under way")
    }
}

fn is_quiet(post: &Post, incoming: &Incoming) -> bool {
    let follows = |follower: &super::post::Follower| follower.is_whole() && !follower.is_out_of_reach();
    let is_still = post.frozen_since.is_none() && !post.is_beginning && post.followers.iter().all(follows);
    is_still && incoming.is_quiet()
}

impl fmt::Display for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Away => "away",
            Role::Owner => "owner",
            Role::Backup => "backup",
        };
        let (map, since, turn) = (self.map, self.owned_since, self.turn);
        write!(f, "{role} by map {map} (owned since {since}) at {turn}")?;
        if self.is_beginning {
            f.write_str(", is being read")?;
        }
        if self.frozen_since.is_some() {
            f.write_str(", frozen")?;
        }
        for one in &self.followers {
            let (server, standing, copy, order) = (&one.server, one.standing, one.copy, one.order);
            write!(f, ", {server} follows: {standing:?} copy {copy:?} order {order:?}")?;
        }
        Ok(())
    }
}
