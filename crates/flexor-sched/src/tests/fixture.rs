//! A fake cluster that carries plans out.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{Rank, Resources, RoleName, UnixTime};

use crate::{
    ClusterPlan, JobKey, Location, Node, NodeName, PlanInput, Pod, PodShape, PodSlot, Promise, SizedJob, SizedRole,
    plan,
};

#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub jobs: Vec<SizedJob>,
    pub promises: Vec<Promise>,
    pub swaps: u32,
}

pub(super) fn resources(pairs: &[(&str, &str)]) -> Resources {
    pairs.iter().map(|(name, quantity)| (*name, quantity.parse().unwrap())).collect()
}

pub(super) fn cores(n: u32) -> Resources {
    resources(&[("cpu", &n.to_string())])
}

pub(super) fn role(name: &str, min: u32, max: u32, requests: Resources) -> SizedRole {
    let pod = PodShape { requests, ..PodShape::default() };
    SizedRole { name: name.parse().unwrap(), min, max, pod, target: 0, finished: BTreeSet::new() }
}

pub(super) fn trainer() -> RoleName {
    "trainer".parse().unwrap()
}

/// A job of the tutorial: a master, servers and trainers of one core each.
pub(super) fn tutorial_job(name: &str, age: u64, min: u32, max: u32) -> SizedJob {
    let roles =
        vec![role("master", 1, 1, cores(1)), role("pserver", 2, 2, cores(1)), role("trainer", min, max, cores(1))];
    SizedJob { key: name.into(), priority: 0, created: UnixTime::from_secs(age), roles, growth_paused: false }
}

/// A job of one role.
pub(super) fn trainers(name: &str, age: u64, min: u32, max: u32, requests: Resources) -> SizedJob {
    let roles = vec![role("trainer", min, max, requests)];
    SizedJob { key: name.into(), priority: 0, created: UnixTime::from_secs(age), roles, growth_paused: false }
}

pub(super) fn node(name: &str, allocatable: Resources) -> Node {
    Node { name: name.into(), allocatable, labels: BTreeMap::new(), taints: Vec::new(), schedulable: true }
}

/// A pod of somebody else that runs.
pub(super) fn foreign(node: &str, requests: Resources) -> Pod {
    let location = Location::Bound(node.into());
    Pod { requests, location, terminating: false, overdue: false, owner: None }
}

impl World {
    /// So many equal nodes, `n00` and on.
    pub(super) fn of(count: usize, cores_each: u32) -> Self {
        let nodes = (0..count).map(|at| node(&format!("n{at:02}"), cores(cores_each)));
        Self { nodes: nodes.collect(), ..Self::default() }
    }

    pub(super) fn input(&self) -> PlanInput<'_> {
        let Self { nodes, pods, jobs, promises, swaps } = self;
        PlanInput { nodes, pods, jobs, promises, swaps: *swaps }
    }

    pub(super) fn plan(&self) -> ClusterPlan {
        plan(&self.input())
    }

    /// Carries a plan out: nothing starts or ends by itself meanwhile.
    pub(super) fn apply(&mut self, plan: &ClusterPlan) {
        for decision in &plan.roles {
            for removal in &decision.remove {
                let owner = PodSlot { job: decision.job.clone(), role: decision.role.clone(), rank: removal.rank };
                let is_removed = |pod: &Pod| pod.owner.as_ref() == Some(&owner) && !pod.terminating;
                self.pods.retain(|pod| !is_removed(pod) || matches!(pod.location, Location::Bound(_)));
                self.pods.iter_mut().filter(|pod| is_removed(pod)).for_each(|pod| pod.terminating = true);
            }
        }
        for decision in &plan.roles {
            let job = self.jobs.iter_mut().find(|job| job.key == decision.job).unwrap();
            let role = job.roles.iter_mut().find(|role| role.name == decision.role).unwrap();
            role.target = decision.to;
            for creation in &decision.create {
                let owner = PodSlot { job: decision.job.clone(), role: decision.role.clone(), rank: creation.rank };
                self.pods.push(Pod {
                    requests: role.pod.requests.clone(),
                    location: Location::Assigned(creation.node.clone()),
                    terminating: false,
                    overdue: false,
                    owner: Some(owner),
                });
            }
        }
        for job in self.jobs.iter_mut().filter(|job| plan.not_started.contains(&job.key)) {
            job.growth_paused = true;
        }
        self.promises.clone_from(&plan.promises);
        self.swaps -= plan.swaps;
    }

    /// Plans, and carries the plan out.
    pub(super) fn step(&mut self) -> ClusterPlan {
        let plan = self.plan();
        self.apply(&plan);
        plan
    }

    /// The scheduler binds every pod to its node.
    pub(super) fn bind(&mut self) {
        for pod in &mut self.pods {
            if let Location::Assigned(node) = &pod.location {
                pod.location = Location::Bound(node.clone());
            }
        }
    }

    /// All pods that are ending are gone.
    pub(super) fn drain(&mut self) {
        self.pods.retain(|pod| !pod.terminating);
    }

    /// Goes on, with as many swaps as it takes, until a plan changes nothing.
    pub(super) fn rest(&mut self) {
        for _ in 0..200 {
            self.bind();
            self.drain();
            self.swaps = 30;
            let plan = self.plan();
            if plan.changes_nothing(&self.promises) {
                return;
            }
            self.apply(&plan);
        }
        panic!("no rest after 200 plans: {:?}", self.plan());
    }

    /// Live pods of a role, by rank.
    pub(super) fn ranks(&self, job: &str, role: &str) -> Vec<u32> {
        let owners = self.pods.iter().filter(|pod| !pod.terminating).filter_map(|pod| pod.owner.as_ref());
        let of_role = owners.filter(|owner| owner.job.as_str() == job && owner.role.lower() == role);
        let mut ranks: Vec<u32> = of_role.map(|owner| owner.rank.0).collect();
        ranks.sort_unstable();
        ranks
    }

    pub(super) fn size(&self, job: &str) -> u32 {
        u32::try_from(self.ranks(job, "trainer").len()).unwrap()
    }

    pub(super) fn target(&self, job: &str) -> u32 {
        let job = self.jobs.iter().find(|found| found.key.as_str() == job).unwrap();
        job.roles.iter().find(|role| role.name == trainer()).unwrap().target
    }

    /// The job has ended, with all of its pods.
    pub(super) fn end_job(&mut self, job: &str) {
        self.jobs.retain(|found| found.key.as_str() != job);
        self.pods.retain(|pod| pod.owner.as_ref().is_none_or(|owner| owner.job.as_str() != job));
    }

    /// The pod is gone, as if its node's kubelet had evicted it.
    pub(super) fn lose(&mut self, job: &str, rank: u32) {
        let is_lost = |pod: &Pod| {
            let owner = pod.owner.as_ref();
            owner.is_some_and(|o| o.job.as_str() == job && o.role == trainer() && o.rank == Rank(rank))
        };
        let before = self.pods.len();
        self.pods.retain(|pod| !is_lost(pod));
        assert_eq!(before, self.pods.len() + 1, "{job} {rank} was there");
    }

    pub(super) fn node_of(&self, job: &str, rank: u32) -> Option<NodeName> {
        let key = JobKey::from(job);
        let pod = self.pods.iter().find(|pod| {
            let owner = pod.owner.as_ref();
            owner.is_some_and(|o| o.job == key && o.role == trainer() && o.rank == Rank(rank)) && !pod.terminating
        })?;
        match &pod.location {
            Location::Unassigned => None,
            Location::Assigned(node) | Location::Bound(node) => Some(node.clone()),
        }
    }
}
