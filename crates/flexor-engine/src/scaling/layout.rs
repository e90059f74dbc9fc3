//! How many pods a job has, and the CPU of the one server that may differ.

use super::{Allotment, Sample, Servers};

/// Sizes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Target replicas of the worker role, without chiefs.
    pub workers: u32,
    /// Target replicas of the server role.
    pub servers: u32,
    /// The CPU of the hot server's successor in thousandths of a core; none leaves the server alone.
    pub hot: Option<u64>,
}

/// What a layout takes, cheaper first. Where pods request nothing, their number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) millicores: u64,
    pub(super) pods: u32,
}

impl Layout {
    /// The present targets.
    pub fn of(sample: &Sample) -> Self {
        Self { workers: sample.workers.replicas, servers: sample.servers.replicas, hot: None }
    }

    /// Whether some role has more pods than in another layout, or a pod gets more.
    pub(super) fn grows_from(self, from: Self) -> bool {
        self.workers > from.workers || self.servers > from.servers || self.hot.is_some()
    }

    /// What all pods of the job request in this layout. Pods that stay keep what they have.
    pub(super) fn total(self, sample: &Sample, hot_server: Option<usize>) -> Allotment {
        let chiefs = sample.worker_pods.iter().filter(|pod| pod.role != sample.workers.name);
        let fixed = chiefs.fold(sample.others, |sum, pod| sum.plus(pod.allotment));
        let with_workers = fixed.plus_times(sample.workers.pod, self.workers);
        let Servers::Measured(pods) = &sample.server_pods else {
            return with_workers.plus_times(sample.servers.pod, self.servers);
        };
        let stays = |(position, pod): (usize, &super::PodSample)| match self.hot {
            Some(millicores) if hot_server == Some(position) => Allotment { millicores, ..pod.allotment },
            Some(_) | None => pod.allotment,
        };
        let added = self.servers.saturating_sub(u32::try_from(pods.len()).unwrap_or(u32::MAX));
        let staying = pods.iter().enumerate().take(self.servers as usize).map(stays);
        staying.fold(with_workers.plus_times(sample.servers.pod, added), Allotment::plus)
    }

    pub(super) fn cost(self, total: Allotment) -> Cost {
        Cost { millicores: total.millicores, pods: self.workers + self.servers }
    }
}
