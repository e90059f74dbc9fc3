//! Who should keep the copies: each server the same number, nobody one of what it owns, and as few as possible in other
//! hands than they are.
//!
//! It is always the *nearest* spread to what is there, counted in copies to be made, and that lets a job come to rest.
//! Whoever makes one of those copies is nearer by one; a spread in which that copy should be elsewhere after all would
//! have been nearer before it was made. So what is on its way stays wanted, whatever else arrives first.
//!
//! Finding it is an assignment: what can stay does, then everything that finds a place takes it, and for the rest
//! others make room, in the cheapest chain of them.

use std::collections::BTreeMap;

use super::super::server::ServerId;

/// Who should keep the copy of each partition. There are at least two servers, and partitions are evenly owned.
pub(super) fn spread(copies: &[Option<&ServerId>], owners: &[ServerId], servers: &[ServerId]) -> Vec<Option<ServerId>> {
    let hosts: BTreeMap<&ServerId, Host> = servers.iter().zip((0..).map(Host)).collect();
    let mut spread = Spread::of(
        owners.iter().map(|owner| hosts[owner]).collect(),
        copies.iter().map(|copy| copy.and_then(|server| hosts.get(server)).copied()).collect(),
        servers.len(),
    );
    spread.keep();
    spread.place();
    spread.make_room();
    spread.hosts.into_iter().map(|host| Some(servers[host?.0].clone())).collect()
}

/// A server, by its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host(usize);

/// A partition, by its place in the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece(usize);

/// How a host comes to have one too many.
#[derive(Debug, Clone, Copy)]
enum Link {
    /// This one had no place at all.
    Begins(Piece),
    /// This one had to make room where it was.
    Yields(Piece, Host),
    /// Another has one more than it should instead.
    Lends(Host),
}

struct Spread {
    owners: Vec<Host>,
    /// Where each copy is, if there is one.
    copies: Vec<Option<Host>>,
    /// Where it should be, as far as that is known; never with its owner.
    hosts: Vec<Option<Host>>,
    /// How many each host has.
    loads: Vec<usize>,
    /// How many each host should have at least.
    least: usize,
    /// How many hosts may have one more, beside those who have.
    more: usize,
}

impl Spread {
    fn of(owners: Vec<Host>, copies: Vec<Option<Host>>, hosts: usize) -> Self {
        let pieces = owners.len();
        Self {
            owners,
            copies,
            hosts: vec![None; pieces],
            loads: vec![0; hosts],
            least: pieces / hosts,
            more: pieces % hosts,
        }
    }

    fn all_hosts(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.loads.len()).map(Host)
    }

    /// Those without a place.
    fn homeless(&self) -> Vec<Piece> {
        (0..).map(Piece).zip(&self.hosts).filter(|(_, host)| host.is_none()).map(|(piece, _)| piece).collect()
    }

    fn has_room(&self, host: Host) -> bool {
        let load = self.loads[host.0];
        load < self.least || (load == self.least && self.more > 0)
    }

    fn put(&mut self, piece: Piece, host: Host) {
        self.more -= usize::from(self.loads[host.0] == self.least);
        self.loads[host.0] += 1;
        self.hosts[piece.0] = Some(host);
    }

    /// What a copy costs with a host: nothing where it is.
    fn cost(&self, piece: Piece, host: Host) -> isize {
        isize::from(self.copies[piece.0] != Some(host))
    }

    /// As many copies stay where they are as can. Those who have most may keep one more.
    fn keep(&mut self) {
        let mut has = vec![0_usize; self.loads.len()];
        self.copies.iter().flatten().for_each(|host| has[host.0] += 1);
        let mut by_load: Vec<Host> = self.all_hosts().collect();
        by_load.sort_by_key(|host| std::cmp::Reverse(has[host.0]));
        let mut limits = vec![self.least; self.loads.len()];
        by_load.iter().take(self.more).for_each(|host| limits[host.0] += 1);
        for piece in self.homeless() {
            if let Some(host) = self.copies[piece.0].filter(|host| self.loads[host.0] < limits[host.0]) {
                self.put(piece, host);
            }
        }
    }

    /// The others go to who has least, as far as that is not their owner.
    fn place(&mut self) {
        for piece in self.homeless() {
            let free = self.all_hosts().filter(|host| *host != self.owners[piece.0] && self.has_room(*host));
            if let Some(host) = free.min_by_key(|host| self.loads[host.0]) {
                self.put(piece, host);
            }
        }
    }

    /// For those whose only places left are with their owners others make room.
    fn make_room(&mut self) {
        for piece in self.homeless() {
            let (mut host, links) = self.cheapest_chain(piece);
            while let Some((_, link)) = links[host.0] {
                match link {
                    Link::Begins(piece) => {
                        self.hosts[piece.0] = Some(host);
                        break;
                    }
                    Link::Yields(piece, from) => {
                        self.hosts[piece.0] = Some(host);
                        host = from;
                    }
                    Link::Lends(from) => host = from,
                }
            }
            self.count();
        }
    }

    fn count(&mut self) {
        self.loads.fill(0);
        self.hosts.iter().flatten().for_each(|host| self.loads[host.0] += 1);
        let have_more = self.loads.iter().filter(|load| **load > self.least).count();
        self.more = self.hosts.len() % self.loads.len() - have_more;
    }

    /// The host at the end of the cheapest chain by which a piece gets a place, and how each host comes to have one too
    /// many, at what cost (Bellman and Ford).
    fn cheapest_chain(&self, piece: Piece) -> (Host, Vec<Option<(isize, Link)>>) {
        let mut links: Vec<Option<(isize, Link)>> = vec![None; self.loads.len()];
        for host in self.all_hosts().filter(|host| *host != self.owners[piece.0]) {
            links[host.0] = Some((self.cost(piece, host), Link::Begins(piece)));
        }
        // No chain is longer than there are hosts.
        for _ in self.all_hosts() {
            let mut is_better = false;
            let mut offer = |links: &mut Vec<Option<(isize, Link)>>, host: Host, cost: isize, link: Link| {
                if links[host.0].is_none_or(|(known, _)| cost < known) {
                    links[host.0] = Some((cost, link));
                    is_better = true;
                }
            };
            for (other, from) in (0..).map(Piece).zip(&self.hosts) {
                let Some(from) = *from else { continue };
                for to in self.all_hosts().filter(|to| *to != from && *to != self.owners[other.0]) {
                    let Some((cost, _)) = links[from.0] else { continue };
                    let cost = cost + self.cost(other, to) - self.cost(other, from);
                    offer(&mut links, to, cost, Link::Yields(other, from));
                }
            }
            for from in self.all_hosts().filter(|host| self.loads[host.0] == self.least) {
                let Some((cost, _)) = links[from.0] else { continue };
                for to in self.all_hosts().filter(|host| self.loads[host.0] > self.least) {
                    offer(&mut links, to, cost, Link::Lends(from));
                }
            }
            if !is_better {
                break;
            }
        }
        let ends = self.all_hosts().filter(|host| self.has_room(*host));
        let ends = ends.filter_map(|host| Some((links[host.0]?.0, host)));
        let end = ends.min_by_key(|(cost, _)| *cost);
        let (_, end) = end.expect("where partitions are evenly owned their copies can be evenly kept");
        (end, links)
    }
}
