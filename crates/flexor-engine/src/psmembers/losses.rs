//! What happens when a server is gone: its copies take over, and what had none begins again from a checkpoint.

use std::collections::BTreeSet;
use std::time::Duration;

use flexor_model::Reason;

use super::fact::Fact;
use super::map::{Partition, Seat, Source};
use super::server::ServerId;
use super::{Cause, PsMembers, balance};
use crate::natural_order;

/// How long a server that lost its session has to come back, if nobody says that it is gone: then copies take over.
const GRACE: Duration = Duration::from_secs(2);
/// How much longer what only it keeps waits for it: a server that was stopped, or cut off, still has everything. As long
/// do partitions that nobody keeps wait for a server that is still to come, before others take them over.
const WAIT_FOR_REPLACEMENT: Duration = Duration::from_secs(5);

/// What becomes of a partition that only lost servers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    /// They may come back with it, and so does what another has the same of that is away too.
    Waits,
    /// Nobody keeps it any more.
    Orphaned,
}

impl PsMembers {
    /// The session of a server broke.
    pub fn session_lost(&mut self, server: &ServerId, now: Duration) {
        self.clock.advance(now);
        let until = self.clock.now() + GRACE;
        if let Some(present) = self.present_mut(server) {
            present.away_until = Some(until);
        }
    }

    /// A server is gone for good, as the controller says.
    pub fn gone(&mut self, server: &ServerId, cause: &Cause, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.present_mut(server).is_some() {
            self.present.remove(&server.name);
        }
        self.replace_lost(cause, facts);
        self.settle(facts);
    }

    /// An owner cannot reach the backup of partitions, or says that it does not have them. They are in one map.
    pub fn unreachable(
        &mut self,
        owner: &ServerId,
        partitions: &[Partition],
        backup: &ServerId,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let is_so = |seat: &Seat| seat.owner.as_ref() == Some(owner) && seat.backup.as_ref() == Some(backup);
        let seats = partitions.iter().filter_map(|partition| Some((*partition, self.map.seat(*partition)?)));
        let seats: Vec<(Partition, Seat)> = seats
            .filter(|(_, seat)| is_so(seat))
            .map(|(partition, seat)| (partition, Seat { backup: None, ..seat.clone() }))
            .collect();
        if seats.is_empty() {
            return;
        }
        let cause = Cause::new(Reason::CopyUnreachable, format!("{owner} cannot reach {backup}, which keeps a copy"));
        self.map_anew(seats, cause, facts);
        self.settle(facts);
    }

    /// Gives up servers that did not come back in time: first where others have the same, later what only they have.
    pub(super) fn give_up_the_absent(&mut self, facts: &mut Vec<Fact>) {
        let now = self.clock.now();
        if self.present.values().all(|present| present.away_until.is_some()) {
            // It is the master that nobody reaches, and nobody is there who could take anything over.
            let away = self.present.values_mut().filter_map(|present| present.away_until.as_mut());
            away.for_each(|until| *until = (*until).max(now + GRACE));
            return;
        }
        let away = self.present.iter().filter_map(|(name, present)| {
            Some((ServerId { name: name.clone(), incarnation: present.incarnation }, present.away_until?))
        });
        let absent: Vec<(ServerId, Duration)> = away.filter(|(_, until)| now >= *until).collect();
        for (server, until) in absent {
            let cause = Cause::new(Reason::ServerLost, format!("{server} lost its connection and did not come back"));
            self.replace(|other| *other != server, Alone::Waits, &cause, facts);
            if now >= until + WAIT_FOR_REPLACEMENT || self.keeps_nothing(&server.name) {
                self.present.remove(&server.name);
                self.replace_lost(&cause, facts);
                // It was waited for.
                self.orphaned_at = self.orphaned_at.map(|since| since.min(until));
            }
        }
    }

    /// Takes servers that are not here out of the map: backups take over at once.
    pub(super) fn replace_lost(&mut self, cause: &Cause, facts: &mut Vec<Fact>) {
        let here: BTreeSet<ServerId> = self.present().collect();
        self.replace(|server| here.contains(server), Alone::Orphaned, cause, facts);
        let orphans = self.map.seats.iter().any(|seat| seat.owner.is_none());
        self.orphaned_at = orphans.then(|| self.orphaned_at.unwrap_or(self.clock.now()));
    }

    /// Takes servers that are not `here` out of the map where somebody who is has the same.
    fn replace(&mut self, here: impl Fn(&ServerId) -> bool, alone: Alone, cause: &Cause, facts: &mut Vec<Fact>) {
        let mut seats = Vec::new();
        for (partition, seat) in self.map.iter() {
            let owner = seat.owner.clone().filter(&here);
            let backup = seat.backup.clone().filter(&here);
            // What is copied to where it will be owned has everything, once it has caught up.
            let caught_up = || self.caught_up(partition).filter(|server| here(server) && self.knows(server));
            let after = match owner {
                Some(owner) => Seat { owner: Some(owner), backup, ..seat.clone() },
                None => {
                    // Of two that have everything, the one that is here: the other may never come back.
                    let heirs: Vec<ServerId> = backup.into_iter().chain(caught_up()).collect();
                    let owner = heirs.iter().find(|heir| self.is_here(heir)).or(heirs.first()).cloned();
                    Seat { owner, backup: None, ..seat.clone() }
                }
            };
            let is_decided = match alone {
                Alone::Orphaned => true,
                Alone::Waits => after.owner.as_ref().is_some_and(|owner| self.is_here(owner)),
            };
            if is_decided && after != *seat {
                seats.push((partition, after));
            }
        }
        if !seats.is_empty() {
            self.map_anew(seats, cause.clone(), facts);
        }
    }

    fn caught_up(&self, partition: Partition) -> Option<ServerId> {
        let step = self.moves.get(&partition)?;
        let owner = self.map.seat(partition)?.owner.as_ref()?;
        let has_all = match step.phase {
            super::moves::Phase::Copying => false,
            super::moves::Phase::Synced | super::moves::Phase::Freezing | super::moves::Phase::Frozen => true,
        };
        (has_all && step.from == *owner).then(|| step.to.clone())
    }

    /// Gives partitions that nobody keeps to servers: from the last checkpoint, or from the beginning.
    pub(super) fn adopt_orphans(&mut self, facts: &mut Vec<Fact>) {
        let servers = self.usable();
        let Some(since) = self.orphaned_at.filter(|_| !servers.is_empty()) else { return };
        let is_complete = self.wanted.expected.is_none_or(|expected| servers.len() >= expected as usize);
        if !is_complete && self.clock.now() < since + WAIT_FOR_REPLACEMENT {
            return;
        }
        self.orphaned_at = None;
        let from = match self.source() {
            Source::Initial => "the beginning".to_owned(),
            Source::Checkpoint(number) => format!("checkpoint {number}"),
        };
        let aims = balance::aims(&self.map, &servers, self.settings.copies);
        let rewinds = self.rewinds();
        let begin_again = |(partition, seat): (Partition, &Seat)| {
            let aim = aims.get(partition.0 as usize)?;
            let lost = seat.owner.is_none();
            let owner = if lost { aim.owner.clone() } else { seat.owner.clone()? };
            // Both begin with the same, so that the backup has everything from the start.
            let backup = aim.backup.clone().filter(|backup| *backup != owner);
            let origin = self.next_origin(seat);
            (lost || rewinds).then_some((partition, Seat { owner: Some(owner), backup, origin, ..seat.clone() }))
        };
        let seats: Vec<(Partition, Seat)> = self.map.iter().filter_map(begin_again).collect();
        let lost = self.unowned();
        let all = if rewinds { "; all others go back with them" } else { "" };
        let cause = Cause::new(
            Reason::PartitionsRestored,
            format!("{lost} partitions were lost and begin again from {from}{all}"),
        );
        self.map_anew(seats, cause.clone(), facts);
        if rewinds {
            let checkpoint = self.checkpoints.last().map(|latest| latest.number);
            self.decide(Fact::Rewound { checkpoint, cause }, facts);
        }
    }

    /// Servers that are here and may keep something, in their natural order.
    pub(super) fn usable(&self) -> Vec<ServerId> {
        self.keepers(|present| present.away_until.is_none())
    }

    /// The same, with those who are away and have time to come back: nothing is moved because of them.
    pub(super) fn lasting(&self) -> Vec<ServerId> {
        self.keepers(|_| true)
    }

    fn keepers(&self, counts: impl Fn(&super::server::Present) -> bool) -> Vec<ServerId> {
        let stays = |name: &str| !self.is_leaving(name);
        let present = self.present.iter().filter(|(_, present)| counts(present));
        let id = |(name, present): (&std::sync::Arc<str>, &super::server::Present)| ServerId {
            name: name.clone(),
            incarnation: present.incarnation,
        };
        let mut servers: Vec<ServerId> = present.clone().filter(|(name, _)| stays(name)).map(id).collect();
        if servers.is_empty() {
            // Somebody has to keep it, whoever is to leave.
            servers = present.map(id).collect();
        }
        servers.sort_by(|one, other| natural_order::compare(&one.name, &other.name));
        servers
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Story, server};
    use super::super::{Mode, Partition};

    #[test]
    fn a_master_that_nobody_reaches_gives_nobody_up() {
        for copies in [1, 2] {
            let mut story = Story::begin(copies, Mode::Sync, &["ps-0", "ps-1"]);
            let map = story.members.map().clone();
            story.members.session_lost(&server("ps-0"), story.now);
            story.members.session_lost(&server("ps-1"), story.now);
            story.waits(60);
            assert_eq!(*story.members.map(), map, "they have everything");
            story.comes("ps-1", 1);
            story.waits(1);
            assert_eq!(*story.members.map(), map, "the other has had no time to come back");
            story.comes("ps-0", 1);
            story.waits(60);
            assert_eq!(*story.members.map(), map);
        }
    }

    #[test]
    fn all_that_an_owner_cannot_reach_is_in_one_map() {
        let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
        let map = story.members.map().clone();
        let (zero, one) = (server("ps-0"), server("ps-1"));
        let all: Vec<Partition> = map.iter().map(|(partition, _)| partition).collect();
        story.members.unreachable(&zero, &all, &one, story.now, &mut story.facts);
        assert_eq!(story.members.map().epoch.0, map.epoch.0 + 1);
        for (seat, before) in story.members.map().seats.iter().zip(&map.seats) {
            let is_lost = before.owner.as_ref() == Some(&zero);
            assert_eq!(seat.backup, if is_lost { None } else { before.backup.clone() }, "others speak for themselves");
        }
        let after = story.members.map().clone();
        story.members.unreachable(&zero, &all, &one, story.now, &mut story.facts);
        assert_eq!(*story.members.map(), after, "what is said again is no news");
        story.obey();
        assert!(story.members.is_redundant());
    }

    #[test]
    fn nothing_is_taken_over_by_a_server_that_is_away_too() {
        let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1", "ps-2"]);
        let map = story.members.map().clone();
        story.members.session_lost(&server("ps-0"), story.now);
        story.members.session_lost(&server("ps-1"), story.now);
        story.waits(4);
        let of_both = |name: &str| [server("ps-0"), server("ps-1")].contains(&server(name));
        for (seat, before) in story.members.map().seats.iter().zip(&map.seats) {
            let (Some(owner), Some(backup)) = (&before.owner, &before.backup) else { panic!("all are kept twice") };
            match of_both(&owner.name) && of_both(&backup.name) {
                true => assert_eq!(seat, before, "whoever comes back has it"),
                false => assert_eq!(seat.owner, Some(server("ps-2")), "it is here and has the same"),
            }
        }
        story.comes("ps-0", 1);
        story.comes("ps-1", 1);
        story.waits(10);
        story.obey();
        assert!(story.members.is_redundant());
        assert_eq!(story.members.restorations().0, 0, "nothing was lost");
    }
}
