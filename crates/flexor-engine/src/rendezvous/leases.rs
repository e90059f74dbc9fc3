//! The leases of members: how long a member may be silent, and what happens when its lease expires.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::member::Lease;
use super::{Cause, Fact, MemberId, MemberState, Rendezvous, ended};

impl Rendezvous {
    pub(super) fn drop_expired_members(&mut self, facts: &mut Vec<Fact>) {
        if self.clock.now() < self.leases_hold_until {
            return;
        }
        let mut earliest = Duration::MAX;
        let mut lost = Vec::new();
        for (name, (incarnation, member)) in &self.members {
            if member.lease_until <= self.clock.now() {
                lost.push((MemberId::new(Arc::clone(name), *incarnation), member.lease));
            } else {
                earliest = earliest.min(member.lease_until);
            }
        }
        self.leases_hold_until = earliest;
        for (id, lease) in lost {
            let cause = match lease {
                Lease::Heard | Lease::ConnectionLost | Lease::Restored if self.closed.is_some() => ended(),
                Lease::Heard => {
                    Cause::new(Reason::NodeSilent, format!("nothing heard of it for {:?}", self.settings.silence))
                }
                Lease::ConnectionLost => {
                    Cause::new(Reason::ConnectionLost, "its connection was lost and did not come back")
                }
                Lease::Restored => {
                    let grace = self.settings.reconnect_grace;
                    Cause::new(Reason::NotReconnected, format!("it did not come back within {grace:?}"))
                }
            };
            self.decide(Fact::Dropped { id, cause }, facts);
        }
    }

    /// Drops members whose sidecar connection is lost once all other members of their world have joined the next round.
    /// The others rejoin only because the node itself failed, so the grace of the connection is pointless.
    pub(super) fn drop_cut_off_members(&mut self, facts: &mut Vec<Fact>) {
        if self.cut_off.is_empty()
            || self.census.joined == 0
            || self.clock.now() < self.grace_until
            || self.closed.is_some()
        {
            return;
        }
        let is_left = |name: &&Arc<str>| {
            let member = self.members.get(*name).map(|(_, member)| member);
            member.is_some_and(|member| {
                member.survivor && matches!(member.state, MemberState::InWorld | MemberState::Away)
            })
        };
        let left: Vec<Arc<str>> = self.cut_off.iter().filter(is_left).cloned().collect();
        if left.is_empty() || left.len() != (self.census.world + self.census.away) as usize {
            return;
        }
        for name in left {
            let Some((incarnation, _)) = self.members.get(&name) else { continue };
            let id = MemberId::new(name, *incarnation);
            let cause =
                Cause::new(Reason::ConnectionLost, "its connection was lost, and all others of its world joined again");
            self.decide(Fact::Dropped { id, cause }, facts);
        }
    }

    pub(super) fn renew_lease(&mut self, id: &MemberId) {
        let until = (self.clock.now() + self.settings.silence).max(self.grace_until);
        if let Some((incarnation, member)) = self.members.get_mut(&id.name)
            && *incarnation == id.incarnation
        {
            member.lease_until = until;
            member.lease = Lease::Heard;
            self.cut_off.remove(&id.name);
        }
    }

    pub(super) fn shorten_lease(&mut self, id: &MemberId, grace: Duration) {
        let until = (self.clock.now() + grace).max(self.grace_until);
        if let Some((incarnation, member)) = self.members.get_mut(&id.name)
            && *incarnation == id.incarnation
            && until < member.lease_until
        {
            member.lease_until = until;
            member.lease = Lease::ConnectionLost;
            self.cut_off.insert(Arc::clone(&id.name));
            self.leases_hold_until = self.leases_hold_until.min(until);
        }
    }
}
