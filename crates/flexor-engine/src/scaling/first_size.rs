//! What pods ask for before anything is measured: a fifth of the ceiling each.
//!
//! A chief, one server and three workers then fill the ceiling exactly.

use super::allotment::MEBIBYTE;
use super::{Allotment, Ceiling};

/// The pods that share a ceiling.
const PODS: u64 = 5;
/// A pod of a job without a ceiling.
const DEFAULT: Allotment = Allotment { millicores: 1000, bytes: 2 << 30 };

/// The allotment of a pod whose role names no resources. It takes half of the largest node at most, so that it can be
/// scheduled beside what runs on every node.
pub fn first_allotment(ceiling: Ceiling, largest_node: Option<Allotment>) -> Allotment {
    let share = |most: Option<u64>, default: u64, node: Option<u64>| {
        let share = most.map_or(default, |most| most / PODS);
        share.min(node.map_or(u64::MAX, |node| node / 2)).max(1)
    };
    let bytes = share(ceiling.bytes, DEFAULT.bytes, largest_node.map(|node| node.bytes));
    Allotment {
        millicores: share(ceiling.millicores, DEFAULT.millicores, largest_node.map(|node| node.millicores)),
        bytes: if bytes < MEBIBYTE { bytes } else { bytes - bytes % MEBIBYTE },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pods_fill_the_tutorials_ceiling() {
        let ceiling = Ceiling { millicores: Some(15_000), bytes: Some(30_000 * MEBIBYTE) };
        let pod = first_allotment(ceiling, None);
        assert_eq!(pod.resources().to_string(), "cpu=3 memory=6000Mi");
        assert!(ceiling.fits(Allotment::default().plus_times(pod, 5)));
        assert!(!ceiling.fits(Allotment::default().plus_times(pod, 6)));
    }

    #[test]
    fn without_a_ceiling_a_pod_asks_for_a_core_and_two_gibibytes() {
        assert_eq!(first_allotment(Ceiling::default(), None).resources().to_string(), "cpu=1 memory=2Gi");
    }

    #[test]
    fn a_pod_leaves_half_of_the_largest_node_free() {
        let ceiling = Ceiling { millicores: Some(15_000), bytes: None };
        let node = Allotment { millicores: 2000, bytes: 8 << 30 };
        assert_eq!(first_allotment(ceiling, Some(node)), Allotment { millicores: 1000, bytes: 2 << 30 });
    }
}
