//! Nodes and pods of the model.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pods count CPU in thousandths of a core.
pub(super) type Millis = u32;

/// A pod. Later pods have higher numbers.
pub(super) type PodId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Online,
    Master,
    Server,
    Trainer,
}

#[derive(Debug, Clone)]
pub(super) struct SimPod {
    pub kind: Kind,
    /// Position of its job. An online pod has none.
    pub job: Option<usize>,
    pub rank: u32,
    pub cpu: Millis,
    /// The second of its creation.
    pub created: u32,
    pub node: Option<usize>,
    pub bound_at: u32,
    pub running: bool,
    /// The second in which it is gone, once its deletion has begun.
    pub gone_at: Option<u32>,
    /// Where the planner wants it.
    pub hint: Option<Hint>,
    /// Whether it has the lowest priority, and may be preempted.
    pub surplus: bool,
    /// The node on which the scheduler has made room for it.
    pub nominated: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hint {
    pub node: usize,
    /// Whether it waits for this node, instead of taking another one.
    pub required: bool,
}

impl SimPod {
    pub(super) fn is_live(&self) -> bool {
        self.gone_at.is_none()
    }
}

#[derive(Debug, Clone)]
pub(super) struct SimNode {
    pub cpu: Millis,
    pub free: Millis,
    /// Room that is spoken for by nominated pods.
    pub nominated: Millis,
}

#[derive(Debug, Default)]
pub(super) struct SimCluster {
    pub nodes: Vec<SimNode>,
    pub pods: BTreeMap<PodId, SimPod>,
    next: PodId,
    /// Bound trainers whose deletion has begun.
    pub trainers_ended: u32,
}

impl SimCluster {
    pub(super) fn new(cores: &[u32], standing_load: Millis) -> Self {
        let node = |cores: &u32| SimNode { cpu: cores * 1000, free: cores * 1000 - standing_load, nominated: 0 };
        Self { nodes: cores.iter().map(node).collect(), ..Self::default() }
    }

    pub(super) fn create(&mut self, kind: Kind, job: Option<usize>, rank: u32, cores: u32, now: u32) -> &mut SimPod {
        let pod = SimPod {
            kind,
            job,
            rank,
            cpu: cores * 1000,
            created: now,
            node: None,
            bound_at: 0,
            running: false,
            gone_at: None,
            hint: None,
            surplus: false,
            nominated: None,
        };
        self.next += 1;
        self.pods.entry(self.next).or_insert(pod)
    }

    pub(super) fn bind(&mut self, id: PodId, node: usize, now: u32) {
        let pod = self.pods.get_mut(&id).expect("the scheduler binds pods that exist");
        if let Some(nominated) = pod.nominated.take() {
            self.nodes[nominated].nominated -= pod.cpu;
        }
        pod.node = Some(node);
        pod.bound_at = now;
        self.nodes[node].free -= pod.cpu;
    }

    pub(super) fn nominate(&mut self, id: PodId, node: usize) {
        let pod = self.pods.get_mut(&id).expect("the scheduler nominates pods that exist");
        pod.nominated = Some(node);
        self.nodes[node].nominated += pod.cpu;
    }

    /// Begins a deletion. A pod without a node is gone at once.
    pub(super) fn delete(&mut self, id: PodId, now: u32, grace: u32) {
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.is_live()) else { return };
        if pod.node.is_some() {
            pod.gone_at = Some(now + grace);
            self.trainers_ended += u32::from(pod.kind == Kind::Trainer);
            return;
        }
        if let Some(node) = pod.nominated {
            self.nodes[node].nominated -= pod.cpu;
        }
        self.pods.remove(&id);
    }

    /// Removes pods whose time has come.
    pub(super) fn vanish(&mut self, now: u32) {
        let nodes = &mut self.nodes;
        self.pods.retain(|_, pod| {
            let is_gone = pod.gone_at.is_some_and(|at| at <= now);
            if let (true, Some(node)) = (is_gone, pod.node) {
                nodes[node].free += pod.cpu;
            }
            !is_gone
        });
    }

    /// Pods that were bound long enough ago run.
    pub(super) fn start(&mut self, now: u32, latency: u32) {
        for pod in self.pods.values_mut().filter(|pod| pod.is_live() && pod.node.is_some()) {
            pod.running |= pod.bound_at + latency <= now;
        }
    }

    /// The pods of a kind and job, oldest first.
    pub(super) fn of(&self, kind: Kind, job: Option<usize>) -> impl Iterator<Item = (PodId, &SimPod)> {
        let is_one = move |pod: &SimPod| pod.kind == kind && pod.job == job;
        self.pods.iter().filter(move |(_, pod)| is_one(pod)).map(|(id, pod)| (*id, pod))
    }

    /// Brings a set of equal pods to a size, as Kubernetes' controllers do it: unbound pods go first, then the latest.
    /// Of pods that were created in the same second the first one goes.
    pub(super) fn resize(&mut self, kind: Kind, job: Option<usize>, size: u32, cores: u32, now: u32, grace: u32) {
        let live = self.of(kind, job).filter(|(_, pod)| pod.is_live());
        let mut live: Vec<(bool, u32, Reverse<PodId>)> =
            live.map(|(id, pod)| (pod.node.is_none(), pod.created, Reverse(id))).collect();
        live.sort_unstable();
        let have = u32::try_from(live.len()).unwrap_or(u32::MAX);
        for rank in have..size {
            self.create(kind, job, rank, cores, now);
        }
        for (.., Reverse(id)) in live.iter().skip(size as usize) {
            self.delete(*id, now, grace);
        }
    }
}
