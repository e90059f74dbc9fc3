//! A random cluster under the planner: nodes, jobs, their pods and pods of others.
//!
//! Controllers, scheduler and kubelets do at once what the planner asks for, except that a deleted pod holds its room
//! until the next plan but one. Between two plans something else happens: a job ends and another one comes, a pod of
//! somebody else preempts surplus or ends, a node is cordoned or is back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use flexor_control::{ClusterPlanner, ClusterPod, PlannedJob};
use flexor_engine::controller::JobAssignment;
use flexor_model::{Quantity, Rank, Resources, RoleName, UnixTime};
use flexor_sched::{JobKey, Location, Node, NodeName, PodSlot, Taint, TaintEffect};

use super::jobs::{self, CARDS, ZONE, ZONES, resources};
use super::random::Random;

/// The time from plan to plan.
const STEP: Duration = Duration::from_secs(2);
/// Changes that are planned together.
const MOST_CHANGES: u32 = 3;
/// A node in so many has graphics cards.
const WITH_CARDS: u32 = 5;

/// A cluster, and the planner that has planned it so far.
pub(super) struct Cluster {
    random: Random,
    planner: ClusterPlanner,
    nodes: Vec<Node>,
    jobs: Vec<PlannedJob>,
    pods: Vec<ClusterPod>,
    now: UnixTime,
    /// Jobs that were ever submitted, and pods that were ever created.
    submitted: u64,
    created: u64,
}

/// What the planner is given.
pub(super) struct Observed {
    nodes: Vec<Node>,
    pods: Vec<ClusterPod>,
    jobs: Vec<PlannedJob>,
}

impl Cluster {
    /// A cluster with pods of others on its nodes. All jobs wait for the first plan.
    pub(super) fn new(nodes: u32, jobs: u32, seed: u64) -> Result<Self> {
        let mut cluster = Self {
            random: Random::new(seed),
            planner: ClusterPlanner::default(),
            nodes: Vec::new(),
            jobs: Vec::new(),
            pods: Vec::new(),
            now: UnixTime::from_secs(1_000_000),
            submitted: 0,
            created: 0,
        };
        for number in 0..nodes {
            let node = cluster.node(number)?;
            for _ in 0..cluster.random.between(1, 3) {
                let requests = resources(cluster.random.between(1, 2), 2, 0)?;
                cluster.add(requests, node.name.clone(), None);
            }
            cluster.nodes.push(node);
        }
        for _ in 0..jobs {
            cluster.submit()?;
        }
        Ok(cluster)
    }

    fn node(&mut self, number: u32) -> Result<Node> {
        let cores = self.random.one_of(&[16, 32, 64]);
        let cards = if self.random.once_in(WITH_CARDS) { 8 } else { 0 };
        let taint = Taint { key: CARDS.to_owned(), value: String::new(), effect: TaintEffect::NoSchedule };
        let zone = self.random.one_of(&ZONES);
        let own = resources(cores, 4 * cores, cards)?;
        let own = own.iter().map(|(name, quantity)| (name.to_owned(), quantity));
        Ok(Node {
            name: format!("node-{number:04}").into(),
            allocatable: own.chain([("pods".to_owned(), Quantity::whole(110))]).collect(),
            labels: BTreeMap::from([(ZONE.to_owned(), zone.to_owned())]),
            taints: if cards > 0 { vec![taint] } else { Vec::new() },
            schedulable: true,
        })
    }

    fn submit(&mut self) -> Result<()> {
        let job = jobs::random(self.submitted, self.now, &mut self.random)?;
        self.submitted += 1;
        self.jobs.push(job);
        Ok(())
    }

    fn add(&mut self, requests: Resources, node: NodeName, owner: Option<PodSlot>) {
        self.created += 1;
        self.pods.push(ClusterPod {
            uid: format!("pod-{:08}", self.created),
            requests,
            location: Location::Bound(node),
            terminating: false,
            ended: false,
            waits_since: None,
            owner,
        });
    }

    /// A copy of everything, as the operator takes one from its caches for each plan.
    pub(super) fn observe(&self) -> Observed {
        Observed { nodes: self.nodes.clone(), pods: self.pods.clone(), jobs: self.jobs.clone() }
    }

    /// Plans once.
    pub(super) fn plan(&mut self, observed: &Observed) {
        self.planner.plan(&observed.nodes, &observed.pods, &observed.jobs, self.now);
    }

    /// Does what was planned, lets time pass, and has something else happen.
    pub(super) fn go_on(&mut self) -> Result<()> {
        self.pods.retain(|pod| !pod.terminating);
        self.carry_out();
        self.now += STEP;
        for _ in 0..self.random.between(1, MOST_CHANGES) {
            match self.random.between(0, 9) {
                0..4 => self.replace_a_job()?,
                4..7 => self.preempt(),
                7..9 => self.end_a_pod_of_others(),
                _ => self.cordon_or_uncordon(),
            }
        }
        Ok(())
    }

    /// Deletes the pods that their assignment does not have, and creates those that are missing.
    fn carry_out(&mut self) {
        let assignments: HashMap<JobKey, Arc<JobAssignment>> = self
            .jobs
            .iter()
            .filter_map(|job| Some((job.sized.key.clone(), self.planner.assignment(&job.sized.key)?)))
            .collect();
        let mut there: HashSet<(&JobKey, &RoleName, Rank)> = HashSet::new();
        for pod in &mut self.pods {
            let Some(owner) = &pod.owner else { continue };
            let assigned = assignments.get(&owner.job).and_then(|assignment| assignment.roles.get(&owner.role));
            let stays = assigned.is_some_and(|role| role.ranks.contains(&owner.rank) && !role.moved.contains(&pod.uid));
            pod.terminating |= !stays;
            there.insert((&owner.job, &owner.role, owner.rank));
        }
        let mut missing = Vec::new();
        let roles = self.jobs.iter().flat_map(|job| job.sized.roles.iter().map(move |role| (&job.sized.key, role)));
        for (key, role) in roles {
            let Some(assigned) = assignments.get(key).and_then(|assignment| assignment.roles.get(&role.name)) else {
                continue;
            };
            for (rank, place) in &assigned.places {
                if !there.contains(&(key, &role.name, *rank)) {
                    let owner = PodSlot { job: key.clone(), role: role.name.clone(), rank: *rank };
                    missing.push((role.pod.requests.clone(), NodeName::from(place.node.as_str()), owner));
                }
            }
        }
        for (requests, node, owner) in missing {
            self.add(requests, node, Some(owner));
        }
    }

    /// A job is deleted with its pods, and another one is submitted.
    fn replace_a_job(&mut self) -> Result<()> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let at = self.random.position(self.jobs.len());
        let gone = self.jobs.swap_remove(at).sized.key;
        for pod in self.pods.iter_mut().filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.job == gone)) {
            pod.terminating = true;
        }
        self.submit()
    }

    /// kube-scheduler ends a surplus pod and gives its room to a pod of somebody else.
    fn preempt(&mut self) {
        let least: HashMap<(&JobKey, &RoleName), u32> = self
            .jobs
            .iter()
            .flat_map(|job| job.sized.roles.iter().map(move |role| ((&job.sized.key, &role.name), role.min)))
            .collect();
        let is_surplus = |pod: &ClusterPod| {
            let least = pod.owner.as_ref().and_then(|owner| Some((least.get(&(&owner.job, &owner.role))?, owner.rank)));
            !pod.terminating && least.is_some_and(|(least, rank)| rank.0 >= *least)
        };
        let surplus: Vec<usize> = (0..self.pods.len()).filter(|at| is_surplus(&self.pods[*at])).collect();
        if surplus.is_empty() {
            return;
        }
        let victim = self.pods.swap_remove(self.random.one_of(&surplus));
        if let Some(node) = victim.location.node() {
            self.add(victim.requests.clone(), node.clone(), None);
        }
    }

    fn end_a_pod_of_others(&mut self) {
        let others: Vec<usize> = (0..self.pods.len()).filter(|at| self.pods[*at].owner.is_none()).collect();
        if !others.is_empty() {
            self.pods.swap_remove(self.random.one_of(&others));
        }
    }

    fn cordon_or_uncordon(&mut self) {
        let at = self.random.position(self.nodes.len());
        if let Some(node) = self.nodes.get_mut(at) {
            node.schedulable = !node.schedulable;
        }
    }

    /// What the cluster is like, in a line.
    pub(super) fn describe(&self) -> String {
        let of_jobs = self.pods.iter().filter(|pod| pod.owner.is_some()).count();
        let held = |job: &&PlannedJob| {
            self.planner.assignment(&job.sized.key).is_some_and(|assignment| assignment.held.is_some())
        };
        let held = self.jobs.iter().filter(held).count();
        let cordoned = self.nodes.iter().filter(|node| !node.schedulable).count();
        format!(
            "{} nodes, {cordoned} of them cordoned; {} jobs, {held} of them held; {of_jobs} of {} pods are theirs",
            self.nodes.len(),
            self.jobs.len(),
            self.pods.len(),
        )
    }
}
