//! The scheduler of the model: kube-scheduler as far as the experiments need it.
//!
//! A pod goes to the feasible node with the largest free fraction. A size that found no node is not tried again within
//! the second. With priorities, an online pod that fits nowhere ends surplus trainers, the youngest first.

use std::collections::BTreeSet;

use super::cluster::{Hint, Kind, Millis, PodId, SimCluster, SimPod};

/// The order of the queue, and what pods may do to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// First come, first served: Kubernetes 1.6.
    Fifo,
    /// Online pods, then masters and servers, then trainers.
    Priority,
    /// Online pods and the base of jobs alike, then surplus, which online pods preempt.
    Preempting { grace: u32 },
}

impl Queue {
    fn class(self, pod: &SimPod) -> u8 {
        match (self, pod.kind) {
            (Self::Fifo, _) | (Self::Priority, Kind::Online) => 0,
            (Self::Priority, Kind::Master | Kind::Server) => 1,
            (Self::Priority, Kind::Trainer) => 2,
            (Self::Preempting { .. }, _) => u8::from(pod.surplus),
        }
    }
}

/// One second of scheduling.
pub(super) fn schedule(cluster: &mut SimCluster, queue: Queue, now: u32, binds: u32) {
    let pending = cluster.pods.iter().filter(|(_, pod)| pod.node.is_none());
    let mut pending: Vec<(u8, PodId)> = pending.map(|(id, pod)| (queue.class(pod), *id)).collect();
    pending.sort_unstable();
    let mut hopeless: BTreeSet<(Millis, bool)> = BTreeSet::new();
    let mut cycles = 0;
    for (_, id) in pending {
        if cycles == binds {
            return;
        }
        let pod = &cluster.pods[&id];
        let (cpu, hint, nominated) = (pod.cpu, pod.hint, pod.nominated);
        let is_online = pod.kind == Kind::Online;
        if let Some(Hint { node, required }) = hint {
            if cluster.nodes[node].free >= cpu + cluster.nodes[node].nominated {
                cluster.bind(id, node, now);
                cycles += 1;
                continue;
            }
            if required {
                continue;
            }
        }
        if let Some(node) = nominated {
            // The room is its own, beside that of the others that are nominated there.
            if cluster.nodes[node].free >= cpu {
                cluster.bind(id, node, now);
                cycles += 1;
            }
            continue;
        }
        if hopeless.contains(&(cpu, is_online)) {
            continue;
        }
        if let Some(node) = roomiest(cluster, cpu) {
            cluster.bind(id, node, now);
            cycles += 1;
            continue;
        }
        match queue {
            Queue::Preempting { grace } if is_online && preempt(cluster, id, now, grace) => {
                cycles += 1;
            }
            Queue::Fifo | Queue::Priority | Queue::Preempting { .. } => {
                hopeless.insert((cpu, is_online));
            }
        }
    }
}

/// The feasible node with the largest free fraction; the first of equal ones.
fn roomiest(cluster: &SimCluster, cpu: Millis) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, node) in cluster.nodes.iter().enumerate().filter(|(_, node)| node.free >= cpu + node.nominated) {
        let is_better = |best: usize| {
            let best = &cluster.nodes[best];
            u64::from(node.free) * u64::from(best.cpu) > u64::from(best.free) * u64::from(node.cpu)
        };
        if best.is_none_or(is_better) {
            best = Some(at);
        }
    }
    best
}

/// Nominates a node for a pod: one where enough room drains already, else the node of the youngest surplus trainer
/// whose end makes enough. Says whether there is one.
fn preempt(cluster: &mut SimCluster, id: PodId, now: u32, grace: u32) -> bool {
    let cpu = cluster.pods[&id].cpu;
    let mut after: Vec<Millis> = cluster.nodes.iter().map(|node| node.free).collect();
    let ending = cluster.pods.values().filter(|pod| !pod.is_live());
    ending.filter_map(|pod| Some((pod.node?, pod.cpu))).for_each(|(node, cpu)| after[node] += cpu);
    let fits = |node: usize, freed: Millis| after[node] + freed >= cpu + cluster.nodes[node].nominated;
    if let Some(node) = (0..after.len()).find(|node| fits(*node, 0)) {
        cluster.nominate(id, node);
        return true;
    }
    let surplus = cluster.pods.iter().filter(|(_, pod)| pod.is_live() && pod.surplus);
    let bound = surplus.filter_map(|(victim, pod)| Some((pod.bound_at, *victim, pod.node?, pod.cpu)));
    let usable = bound.filter(|(.., node, freed)| fits(*node, *freed));
    let Some((.., victim, node, _)) = usable.max_by_key(|(bound_at, victim, ..)| (*bound_at, *victim)) else {
        return false;
    };
    cluster.delete(victim, now, grace);
    cluster.nominate(id, node);
    true
}
