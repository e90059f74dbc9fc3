//! What becomes of a change that an owner has sent.
//!
//! Servers hear of maps at different times and may miss some of them, so that who sends a change may not be the owner any
//! more, or may have become it without this server having heard so; and what it is for may be here, on its way, or not
//! wanted any more. All of that is decided here, from what the server knows, and nothing else.

use flexor_model::PsEpoch;
use flexor_wire::ps::v1 as wire;

use super::incoming::Incoming;
use crate::server::numbers::{CopyNumber, Origin, Turn};
use crate::server::post::{Post, Role};

/// A change of one partition, as its sender tells of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) turn: Turn,
    /// The copy that it is for, where it is not for one that had everything from the start.
    pub(super) copy: Option<CopyNumber>,
    /// The map by which its sender owns the partition.
    pub(super) map: PsEpoch,
}

impl Change {
    pub(super) fn of(part: &wire::AppliedPart) -> Self {
        let turn = Turn { origin: Origin(part.origin), change: part.number };
        Self { turn, copy: part.copy.map(CopyNumber), map: PsEpoch(part.map) }
    }
}

/// What becomes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its sender does not own the partition any more, and must not believe that it was done.
    Turned,
    /// There is nothing to do: it is in what is here, or for something that nobody wants any more.
    Done,
    /// It is carried out when its turn comes, and its sender waits for that.
    Waits,
    /// The same, for a copy that is not whole. Nobody waits for it: the copy is whole with it.
    WaitsForCopy,
}

impl Verdict {
    /// What becomes of a change, as far as is known here.
    pub(super) fn of(change: &Change, post: &Post, incoming: &Incoming) -> Self {
        let sender_knows_more = change.map > post.map;
        let is_owner = post.role == Role::Owner;
        if change.map < post.owned_since || (is_owner && !sender_knows_more) {
            return Self::Turned;
        }
        let is_for_what_is_here = incoming.has(change.copy);
        let is_for_nobody = match change.copy {
            Some(copy) => copy <= incoming.dropped && !is_for_what_is_here,
            // It was a backup, and is none any more.
            None => post.role == Role::Away && !sender_knows_more,
        };
        // What is for a copy that is still to come says nothing about what is here, which may be of an owner before. Nor
        // does what an owner has that is none any more say anything about what the next one does.
        let is_old = !is_owner
            && (change.turn.origin < post.turn.origin
                || (is_for_what_is_here && change.turn.origin == post.turn.origin && change.turn <= post.turn));
        match is_for_what_is_here {
            _ if is_for_nobody || is_old => Self::Done,
            true => Self::Waits,
            false => Self::WaitsForCopy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::incoming::Whole;
    use super::*;

    const OLD_COPY: Option<CopyNumber> = Some(CopyNumber(3));
    const WHOLE: Option<CopyNumber> = Some(CopyNumber(5));
    const COMING: Option<CopyNumber> = Some(CopyNumber(7));
    const FROM_THE_START: Option<CopyNumber> = None;

    /// The server has heard of map 10; who owns the partition has done so since map 8. It is at the fourth change of the
    /// second beginning. Copy 5 was put in place, copy 4 and those before it are not wanted any more.
    fn verdict(role: Role, map: u64, copy: Option<CopyNumber>, (origin, change): (u64, u64)) -> Verdict {
        let turn = |origin, change| Turn { origin: Origin(origin), change };
        let post = Post {
            role,
            map: PsEpoch(10),
            owned_since: PsEpoch(8),
            // Who keeps nothing is nowhere, but for a copy that the map has not made its own yet.
            turn: turn(2, 4),
            ..Post::default()
        };
        let whole = Some(Whole { copy: CopyNumber(5), map: PsEpoch(8) });
        let incoming = Incoming { whole, dropped: CopyNumber(4), ..Incoming::default() };
        Verdict::of(&Change { turn: turn(origin, change), copy, map: PsEpoch(map) }, &post, &incoming)
    }

    #[test]
    fn what_becomes_of_a_change_hangs_on_what_is_known_and_nothing_else() {
        use Role::{Away, Backup, Owner};
        use Verdict::{Done, Turned, Waits, WaitsForCopy};
        let table = [
            // A backup, and who owns the partition now.
            (Backup, 8, WHOLE, (2, 5), Waits, "the next change"),
            (Backup, 8, WHOLE, (2, 9), Waits, "a later one, whose turn has not come"),
            (Backup, 8, WHOLE, (2, 4), Done, "it is in what is here"),
            (Backup, 9, FROM_THE_START, (2, 5), Waits, "the owner has made another copy its own"),
            (Backup, 9, FROM_THE_START, (2, 3), Done, "it is in what is here"),
            (Backup, 8, OLD_COPY, (2, 5), Done, "for a copy that nobody wants"),
            (Backup, 8, COMING, (2, 3), WaitsForCopy, "what is here says nothing about a copy that is to come"),
            (Backup, 8, WHOLE, (1, 9), Done, "of a beginning that is over"),
            (Backup, 11, FROM_THE_START, (3, 1), Waits, "of a beginning that is not known here yet"),
            // Who owned the partition before.
            (Backup, 7, WHOLE, (2, 5), Turned, "another owns it since map 8"),
            (Away, 7, COMING, (2, 5), Turned, "another owns it since map 8"),
            (Owner, 7, FROM_THE_START, (2, 5), Turned, "this server owns it since map 8"),
            (Owner, 10, WHOLE, (2, 5), Turned, "there is one owner by a map"),
            // Who will own it, as this server has not heard yet.
            (Owner, 11, FROM_THE_START, (2, 5), Waits, "it may be a backup by then"),
            (Owner, 11, FROM_THE_START, (2, 2), Waits, "what it had as the owner says nothing about the next one"),
            (Owner, 11, COMING, (2, 5), WaitsForCopy, "it gets a copy by then"),
            (Owner, 11, OLD_COPY, (2, 5), Done, "for a copy that nobody wants"),
            (Away, 11, FROM_THE_START, (2, 5), Waits, "it may be a backup by then"),
            // Who keeps nothing by the map.
            (Away, 10, FROM_THE_START, (2, 5), Done, "it was a backup, and is none any more"),
            (Away, 10, COMING, (2, 5), WaitsForCopy, "a copy is on its way"),
            (Away, 10, WHOLE, (2, 5), Waits, "a copy is here that is not its own yet"),
            (Away, 10, OLD_COPY, (2, 5), Done, "for a copy that nobody wants"),
        ];
        for (role, map, copy, turn, wanted, why) in table {
            assert_eq!(verdict(role, map, copy, turn), wanted, "{role:?} {copy:?} {turn:?} by map {map}: {why}");
        }
    }
}
