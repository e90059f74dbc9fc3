//! The order in which roles grow and give up pods.
//!
//! Fulfilment is the part of the way from `min` to `max` that a role has got. Pods are handed out one by one to the role
//! whose next pod has the lowest *claim*, `(2k + 1) / (2 span)` for `k` surplus pods: Webster's method of seat
//! allocation. It rounds equal fulfilment to the nearest pod, and more capacity never takes a pod from a role, which
//! the largest-remainder method does not promise. Ties go to the smaller span, then to the job's name. Taking back is
//! the same sequence read backwards.

use std::cmp::Ordering;

use crate::index::GroupIx;

/// The position of one surplus pod in the sequence in which pods are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Twice the number of the pod, less one: odd.
    halves: u32,
    span: u32,
    group: GroupIx,
}

impl Claim {
    /// The claim of the pod after the first `surplus` ones.
    pub(crate) fn next(surplus: u32, span: u32, group: GroupIx) -> Self {
        Self { halves: 2 * surplus + 1, span, group }
    }

    /// The claim of the last of `surplus` pods, of which there is at least one.
    pub(crate) fn last(surplus: u32, span: u32, group: GroupIx) -> Self {
        Self::next(surplus.saturating_sub(1), span, group)
    }

    pub(crate) fn group(self) -> GroupIx {
        self.group
    }
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        // A role without a span whose maximum was lowered is as fulfilled as can be: x/0 is above everything.
        let mine = u64::from(self.halves) * u64::from(other.span);
        let others = u64::from(other.halves) * u64::from(self.span);
        mine.cmp(&others).then(self.span.cmp(&other.span)).then(self.group.cmp(&other.group))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out so many pods among roles of these spans.
    fn handed_out(spans: &[u32], pods: u32) -> Vec<u32> {
        let mut sizes = vec![0; spans.len()];
        for _ in 0..pods {
            let open = GroupIx::all(spans.len()).filter(|g| sizes[g.get()] < spans[g.get()]);
            let next = open.map(|g| Claim::next(sizes[g.get()], spans[g.get()], g)).min();
            if let Some(claim) = next {
                sizes[claim.group().get()] += 1;
            }
        }
        sizes
    }

    #[test]
    fn the_tutorials_two_jobs_get_100_and_34_of_134() {
        assert_eq!(handed_out(&[450, 150], 134), [100, 34]);
    }

    #[test]
    fn nobody_loses_a_pod_when_there_are_more() {
        let spans = [6, 6, 2, 1, 50];
        for pods in 0..65 {
            let (fewer, more) = (handed_out(&spans, pods), handed_out(&spans, pods + 1));
            assert!(fewer.iter().zip(&more).all(|(fewer, more)| fewer <= more), "{pods}: {fewer:?} {more:?}");
        }
    }

    #[test]
    fn taking_back_reverses_handing_out() {
        let group = GroupIx::at(0);
        assert_eq!(Claim::last(5, 9, group), Claim::next(4, 9, group));
        assert!(Claim::last(3, 3, group) > Claim::last(3, 9, group));
    }
}
