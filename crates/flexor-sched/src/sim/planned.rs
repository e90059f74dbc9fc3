//! The planner of this crate as a policy of the model: what a driver does, without Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flexor_model::{Rank, Resources, RoleName, UnixTime};

use super::cluster::{Hint, Kind, Millis, PodId, SimCluster, SimPod};
use super::{Experiment, JobShape};
use crate::{
    ClusterPlan, JobKey, Location, Node, NodeName, PlanInput, Pod, PodShape, PodSlot, Promise, SizedJob, SizedRole,
    SwapBudget, plan,
};

/// The part of a driver that lasts from plan to plan.
#[derive(Debug)]
pub(super) struct Driver {
    shapes: Vec<JobShape>,
    grace: u32,
    nodes: Vec<Node>,
    standing: Vec<Pod>,
    names: Names,
    promises: Vec<Promise>,
    budget: SwapBudget,
    targets: BTreeMap<(usize, usize), u32>,
}

/// The roles of every job, in the order of [`Driver::roles`].
const ROLES: [(&str, Kind); 3] = [("master", Kind::Master), ("pserver", Kind::Server), ("trainer", Kind::Trainer)];

#[derive(Debug)]
struct Names {
    jobs: Vec<JobKey>,
    roles: Vec<RoleName>,
}

fn cpu(millis: Millis) -> Resources {
    let text = format!("{millis}m");
    [("cpu", text.parse().expect("digits and a suffix are a quantity"))].into_iter().collect()
}

impl Driver {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let node = |(at, cores): (usize, &u32)| Node {
            // Names in the order of the list.
            name: format!("node{at:03}").into(),
            allocatable: cpu(cores * 1000),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            schedulable: true,
        };
        let nodes: Vec<Node> = experiment.nodes.iter().enumerate().map(node).collect();
        let standing = |node: &Node| Pod {
            requests: cpu(experiment.standing_load),
            location: Location::Bound(node.name.clone()),
            terminating: false,
            overdue: false,
            owner: None,
        };
        let roles = ROLES.iter().map(|(name, _)| name.parse().expect("a label is a role name"));
        Self {
            shapes: experiment.jobs.iter().map(|job| job.shape).collect(),
            grace: experiment.grace,
            standing: nodes.iter().map(standing).collect(),
            nodes,
            names: Names {
                jobs: (0..experiment.jobs.len()).map(|job| format!("default/job{job:02}").into()).collect(),
                roles: roles.collect(),
            },
            promises: Vec::new(),
            budget: SwapBudget::default(),
            targets: BTreeMap::new(),
        }
    }

    /// Plans and carries the plan out. Jobs are positions with the second of their submission.
    pub(super) fn act(&mut self, cluster: &mut SimCluster, jobs: &[(usize, u32)], now: u32) {
        let surplus = cluster.pods.values().filter(|pod| pod.is_live() && pod.surplus).count();
        self.budget.accrue(u32::try_from(surplus).unwrap_or(u32::MAX), Duration::from_secs(1));
        let planned = self.plan(cluster, jobs);
        self.carry_out(cluster, &planned, now);
        self.budget.spend(planned.swaps);
        self.promises = planned.promises;
    }

    fn plan(&self, cluster: &SimCluster, jobs: &[(usize, u32)]) -> ClusterPlan {
        let jobs: Vec<SizedJob> = jobs.iter().map(|(job, submitted)| self.job(*job, *submitted)).collect();
        let of_jobs = cluster.pods.values().map(|pod| self.pod(pod));
        let pods: Vec<Pod> = self.standing.iter().cloned().chain(of_jobs).collect();
        let (nodes, promises) = (&self.nodes, &self.promises);
        plan(&PlanInput { nodes, pods: &pods, jobs: &jobs, promises, swaps: self.budget.available() })
    }

    /// Cores, least and most replicas of each role.
    fn roles(&self, job: usize) -> [(u32, u32, u32); 3] {
        let shape = self.shapes[job];
        [
            (shape.master_cores, 1, 1),
            (shape.server_cores, shape.servers, shape.servers),
            (shape.trainer_cores, shape.min, shape.max),
        ]
    }

    fn job(&self, job: usize, submitted: u32) -> SizedJob {
        let role = |(at, (cores, min, max)): (usize, (u32, u32, u32))| SizedRole {
            name: self.names.roles[at].clone(),
            min,
            max,
            pod: PodShape { requests: cpu(cores * 1000), ..PodShape::default() },
            target: self.targets.get(&(job, at)).copied().unwrap_or(0),
            finished: BTreeSet::new(),
        };
        SizedJob {
            key: self.names.jobs[job].clone(),
            priority: 0,
            created: UnixTime::from_secs(submitted.into()),
            roles: self.roles(job).into_iter().enumerate().map(role).collect(),
            growth_paused: false,
        }
    }

    fn pod(&self, pod: &SimPod) -> Pod {
        let name = |node: usize| self.nodes[node].name.clone();
        let role = ROLES.iter().position(|(_, kind)| *kind == pod.kind);
        let owner = role.zip(pod.job).map(|(role, job)| PodSlot {
            job: self.names.jobs[job].clone(),
            role: self.names.roles[role].clone(),
            rank: Rank(pod.rank),
        });
        let assigned = pod.hint.map(|hint| hint.node).or(pod.nominated);
        let location = match (pod.node, assigned) {
            (Some(node), _) => Location::Bound(name(node)),
            (None, Some(node)) => Location::Assigned(name(node)),
            (None, None) => Location::Unassigned,
        };
        Pod { requests: cpu(pod.cpu), location, terminating: !pod.is_live(), overdue: false, owner }
    }

    fn carry_out(&mut self, cluster: &mut SimCluster, plan: &ClusterPlan, now: u32) {
        let positions: BTreeMap<&NodeName, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (&node.name, at)).collect();
        let found = |job: &JobKey, role: &RoleName| {
            let job = self.names.jobs.iter().position(|key| key == job)?;
            Some((job, self.names.roles.iter().position(|name| name == role)?))
        };
        for decision in &plan.roles {
            let Some((job, role)) = found(&decision.job, &decision.role) else { continue };
            let leaving: BTreeSet<u32> = decision.remove.iter().map(|removal| removal.rank.0).collect();
            let pods = cluster.of(ROLES[role].1, Some(job)).filter(|(_, pod)| leaving.contains(&pod.rank));
            let ids: Vec<PodId> = pods.map(|(id, _)| id).collect();
            ids.into_iter().for_each(|id| cluster.delete(id, now, self.grace));
        }
        for decision in &plan.roles {
            let Some((job, role)) = found(&decision.job, &decision.role) else { continue };
            let (cores, ..) = self.roles(job)[role];
            for creation in &decision.create {
                let hint = Hint { node: positions[&creation.node], required: !creation.base };
                let pod = cluster.create(ROLES[role].1, Some(job), creation.rank.0, cores, now);
                (pod.hint, pod.surplus) = (Some(hint), !creation.base);
            }
            self.targets.insert((job, role), decision.to);
        }
    }
}
