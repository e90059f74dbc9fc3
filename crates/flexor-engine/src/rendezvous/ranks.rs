//! Chooses the members of the next world and assigns their ranks.
//!
//! Ranks are stable: a member of the last world keeps its rank if that rank still exists. Rank 0 goes to a member with
//! surviving processes if there is one, else to a member of the last world if one is left, because programs broadcast
//! their state from rank 0. Only for that does a survivor move although it need not. Free ranks are filled in the natural
//! order of names, so that a first world is ordered like its pods.

use super::MemberId;

/// A member that could be in the next world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: MemberId,
    /// The rank in the last world.
    pub(super) last_rank: Option<u32>,
    /// Its processes keep running.
    pub(super) survives: bool,
    /// The member is a standby and did not join this round.
    pub(super) standby: bool,
    pub(super) since: u64,
}

/// Chooses `size` of the candidates, at most all, and orders them by their new rank.
pub(super) fn assign(mut candidates: Vec<Candidate>, size: usize) -> Vec<MemberId> {
    candidates.sort_by_key(|candidate| (candidate.last_rank.is_none(), candidate.standby, candidate.since));
    candidates.truncate(size);
    let with_surviving_processes: Vec<MemberId> =
        candidates.iter().filter(|candidate| candidate.survives).map(|candidate| candidate.id.clone()).collect();

    let mut ranks: Vec<Option<MemberId>> = vec![None; candidates.len()];
    let mut rest = Vec::new();
    for candidate in candidates {
        match candidate.last_rank.and_then(|rank| ranks.get_mut(rank as usize)) {
            Some(slot) if slot.is_none() => *slot = Some(candidate.id),
            Some(_) | None => rest.push(candidate),
        }
    }
    rest.sort_by(|a, b| (a.last_rank.is_none(), a.last_rank, &a.id).cmp(&(b.last_rank.is_none(), b.last_rank, &b.id)));
    give_rank_zero_to_a_survivor(&mut ranks, &mut rest);

    let mut rest = rest.into_iter();
    let mut ranked: Vec<MemberId> =
        ranks.into_iter().filter_map(|member| member.or_else(|| rest.next().map(|candidate| candidate.id))).collect();
    if let Some(first) = ranked.iter().position(|id| with_surviving_processes.contains(id)) {
        ranked.swap(0, first);
    }
    ranked
}

/// Fills rank 0 if no member kept it. A survivor that has to move anyway is the first of `rest`; without one, the survivor
/// with the lowest rank moves.
fn give_rank_zero_to_a_survivor(ranks: &mut [Option<MemberId>], rest: &mut [Candidate]) {
    let moves_anyway = rest.first().is_some_and(|candidate| candidate.last_rank.is_some());
    if ranks.first().is_some_and(Option::is_none) && !moves_anyway {
        let lowest = ranks.iter().position(Option::is_some);
        if let Some(lowest) = lowest {
            ranks.swap(0, lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, last_rank: Option<u32>) -> Candidate {
        Candidate { id: MemberId::new(name, 0), last_rank, survives: false, standby: false, since: 0 }
    }

    fn names(members: &[MemberId]) -> Vec<&str> {
        members.iter().map(|member| &*member.name).collect()
    }

    #[test]
    fn a_first_world_is_ordered_like_its_pods() {
        let candidates = ["w-10", "w-2", "w-0"].map(|name| candidate(name, None)).to_vec();
        assert_eq!(names(&assign(candidates, 3)), ["w-0", "w-2", "w-10"]);
    }

    #[test]
    fn a_replacement_takes_the_rank_that_became_free() {
        let candidates = vec![candidate("new", None), candidate("a", Some(0)), candidate("c", Some(2))];
        assert_eq!(names(&assign(candidates, 3)), ["a", "new", "c"]);
    }

    #[test]
    fn a_survivor_that_must_move_takes_rank_zero() {
        let candidates = vec![candidate("b", Some(1)), candidate("c", Some(2))];
        assert_eq!(names(&assign(candidates, 2)), ["c", "b"]);
    }

    #[test]
    fn rank_zero_is_never_a_newcomer_while_a_survivor_is_there() {
        let candidates = vec![candidate("a-new", None), candidate("b", Some(1)), candidate("c", Some(2))];
        assert_eq!(names(&assign(candidates, 3)), ["b", "a-new", "c"]);
    }

    #[test]
    fn rank_zero_goes_to_a_member_with_surviving_processes() {
        let surviving = Candidate { survives: true, ..candidate("c", Some(2)) };
        let candidates = vec![candidate("a", Some(0)), candidate("b", Some(1)), surviving];
        assert_eq!(names(&assign(candidates, 3)), ["c", "b", "a"]);
    }

    #[test]
    fn survivors_come_before_newcomers_and_newcomers_before_standbys() {
        let mut standby = candidate("standby", None);
        standby.standby = true;
        let late = Candidate { since: 9, ..candidate("late", None) };
        let early = Candidate { since: 3, ..candidate("new", None) };
        let candidates = vec![standby, late, early, candidate("old", Some(0))];
        assert_eq!(names(&assign(candidates.clone(), 2)), ["old", "new"]);
        assert_eq!(names(&assign(candidates, 4)), ["old", "late", "new", "standby"]);
    }
}
