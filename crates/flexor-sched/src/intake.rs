//! Reads the input into the planner's working copy.
//!
//! What the input says need not fit together: nodes vanish under their pods, a pod is assigned to a node that has been
//! filled meanwhile, a promise has lost its room. Everything that still holds is entered into the ledger; the rest is
//! ended or dropped here, so that the stages find a consistent state.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use flexor_model::Resources;

use crate::amounts::{Row, Units};
use crate::classes::Classifier;
use crate::index::{ClassIx, GroupIx, NodeIx};
use crate::ledger::Ledger;
use crate::state::{EndCause, Ended, Group, JobRow, Phase, PodRef, Slot, State};
use crate::{Location, Node, NodeName, PlanInput, Pod, PodSlot, Promise, SizedJob, SizedRole};

/// The working copy of the input.
pub(crate) fn read(input: &PlanInput<'_>) -> State {
    let mut nodes = sorted_nodes(input.nodes);
    let gone = gone_nodes(input.pods, &nodes);
    nodes.extend(&gone);
    let jobs = sorted_jobs(input.jobs);
    let units = Units::of(input.nodes, input.jobs);
    let capacities: Vec<Row> = nodes.iter().map(|node| units.capacity(&node.allocatable)).collect();
    let mut ledger = Ledger::new(units.width(), &capacities);
    let directory = Directory::of(&nodes, &jobs);

    let mut classifier = Classifier::new(&units, &nodes, &ledger);
    let roles: Vec<&SizedRole> = jobs.iter().flat_map(|job| &job.roles).collect();
    let of_roles: Vec<ClassIx> = roles.iter().map(|role| classifier.class_of(&role.pod, role.max > role.min)).collect();
    let classes = classifier.finish();

    let mut draining = Vec::new();
    let mut own = Vec::new();
    for pod in input.pods {
        let slot = pod.owner.as_ref().and_then(|owner| directory.pod(owner));
        let node = directory.location(pod);
        match (slot, node) {
            (Some(slot), node) if !pod.terminating => {
                let (group, is_bound) = (slot.0.get(), matches!(pod.location, Location::Bound(_)));
                if let Some(node) = node.filter(|_| pod.requests != roles[group].pod.requests) {
                    ledger.occupy(node, &excess(&units, &pod.requests, &classes.get(of_roles[group]).need));
                }
                let is_base = slot.1 < roles[group].min;
                own.push(OwnPod { is_unbound: !is_bound, is_surplus: !is_base, slot, node, overdue: pod.overdue });
            }
            (slot, Some(node)) => {
                draining.extend(slot);
                enter_foreign(&mut ledger, pod, node, &units.request(&pod.requests));
            }
            (slot, None) => draining.extend(slot),
        }
    }

    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let mut state = State::new(units, names, ledger, classes);
    add_jobs(&mut state, &jobs, &of_roles);
    for (group, rank) in draining {
        state.groups[group.get()].draining.insert(rank);
    }
    enter_pods(&mut state, own);
    enter_promises(&mut state, input.promises, &directory);
    state
}

/// A live pod of a planned job. Sorts in the order of entry: bound pods first, because no plan can move them; then the
/// base before surplus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OwnPod {
    is_unbound: bool,
    is_surplus: bool,
    slot: PodRef,
    node: Option<NodeIx>,
    overdue: bool,
}

/// A pod that is not planned, or is ending.
fn enter_foreign(ledger: &mut Ledger, pod: &Pod, node: NodeIx, need: &[i64]) {
    let is_bound = matches!(pod.location, Location::Bound(_));
    // An ending pod without a node is as good as gone.
    if is_bound || !pod.terminating {
        ledger.occupy(node, need);
    }
    if is_bound && pod.terminating {
        ledger.drain(node, need);
    }
}

/// Nodes that are gone although pods still name them. Nothing fits there.
fn gone_nodes(pods: &[Pod], nodes: &[&Node]) -> Vec<Node> {
    let known: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let named = pods.iter().filter_map(|pod| pod.location.node());
    let gone: BTreeSet<&NodeName> = named.filter(|node| !known.contains(node.as_str())).collect();
    let empty = |name: &NodeName| Node {
        name: name.clone(),
        allocatable: Resources::default(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        schedulable: false,
    };
    gone.into_iter().map(empty).collect()
}

fn sorted_nodes(nodes: &[Node]) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = nodes.iter().collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.dedup_by(|a, b| a.name == b.name);
    nodes
}

fn sorted_jobs(jobs: &[SizedJob]) -> Vec<&SizedJob> {
    let mut jobs: Vec<&SizedJob> = jobs.iter().collect();
    jobs.sort_by(|a, b| a.key.cmp(&b.key));
    jobs.dedup_by(|a, b| a.key == b.key);
    jobs
}

/// The positions of everything that pods and promises name.
struct Directory<'a> {
    nodes: HashMap<&'a str, NodeIx>,
    /// Each job with the position of its first group.
    jobs: HashMap<&'a str, (&'a SizedJob, usize)>,
}

impl<'a> Directory<'a> {
    fn of(nodes: &[&'a Node], jobs: &[&'a SizedJob]) -> Self {
        let positions = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), NodeIx::at(at)));
        let first = |next: &mut usize, job: &&'a SizedJob| {
            let at = *next;
            *next += job.roles.len();
            Some((job.key.as_str(), (*job, at)))
        };
        Self { nodes: positions.collect(), jobs: jobs.iter().scan(0, first).collect() }
    }

    fn node(&self, name: &NodeName) -> Option<NodeIx> {
        self.nodes.get(name.as_str()).copied()
    }

    fn location(&self, pod: &Pod) -> Option<NodeIx> {
        pod.location.node().and_then(|node| self.node(node))
    }

    fn pod(&self, owner: &PodSlot) -> Option<PodRef> {
        let (job, first) = self.jobs.get(owner.job.as_str())?;
        let position = job.roles.iter().position(|role| role.name == owner.role)?;
        Some((GroupIx::at(first + position), owner.rank.0))
    }

    fn promise(&self, promise: &Promise) -> Option<(PodRef, NodeIx)> {
        let owner = PodSlot { job: promise.job.clone(), role: promise.role.clone(), rank: promise.rank };
        Some((self.pod(&owner)?, self.node(&promise.node)?))
    }
}

/// What a pod takes beyond the pods of its role, whose requests may have been edited since. A smaller pod counts like
/// the others: its room would be overestimated when it ends.
fn excess(units: &Units, requests: &Resources, need: &[i64]) -> Row {
    units.request(requests).iter().zip(need).map(|(taken, need)| (taken - need).max(0)).collect()
}

fn add_jobs(state: &mut State, jobs: &[&SizedJob], classes: &[ClassIx]) {
    for job in jobs {
        let (position, first) = (state.jobs.len(), state.groups.len());
        for role in &job.roles {
            state.groups.push(Group {
                job: position,
                name: role.name.clone(),
                min: role.min,
                max: role.max.max(role.min),
                class: classes[state.groups.len()],
                target: role.target,
                finished: role.finished.iter().map(|rank| rank.0).collect(),
                pods: BTreeMap::new(),
                draining: BTreeSet::new(),
                surplus: 0,
            });
        }
        state.jobs.push(JobRow {
            key: job.key.clone(),
            priority: job.priority,
            created: job.created,
            groups: first..state.groups.len(),
            growth_paused: job.growth_paused,
        });
    }
    state.order = (0..state.jobs.len()).collect();
    let urgency = |at: &usize| (std::cmp::Reverse(state.jobs[*at].priority), state.jobs[*at].created, *at);
    state.order.sort_by_key(urgency);
}

fn enter_pods(state: &mut State, mut pods: Vec<OwnPod>) {
    pods.sort_unstable();
    for OwnPod { is_unbound, is_surplus, slot: pod, node, overdue } in pods {
        let (group, rank) = pod;
        if state.group(group).pods.contains_key(&rank) {
            // A second pod of one rank is the engine's matter; its room counts.
            if let Some(node) = node {
                state.occupy(node, group);
            }
            continue;
        }
        match node {
            Some(node) if !is_unbound => state.place(pod, Slot { node, phase: Phase::Bound }),
            Some(node) if fits_there(state, group, node) => state.place(pod, Slot { node, phase: Phase::Assigned }),
            Some(_) | None => {
                let slot = Slot { node: node.unwrap_or(NodeIx::at(0)), phase: Phase::Assigned };
                state.ended.push(Ended { pod, slot, cause: EndCause::PlaceGone });
                continue;
            }
        }
        if rank >= state.group(group).max {
            end(state, pod, EndCause::AboveMax);
        } else if overdue && is_surplus {
            end(state, pod, EndCause::NotStarted);
            let job = state.group(group).job;
            state.jobs[job].growth_paused = true;
        }
    }
}

fn end(state: &mut State, pod: PodRef, cause: EndCause) {
    let ended = state.end(pod, cause);
    state.ended.push(ended);
}

fn fits_there(state: &State, group: GroupIx, node: NodeIx) -> bool {
    let class = state.classes.get(state.group(group).class);
    class.accepted_by(node) && state.ledger.fits_after(node, &class.need)
}

/// Gangs first. A promise is dropped if its slot is filled, its room is gone, or its job may not grow.
fn enter_promises(state: &mut State, promises: &[Promise], directory: &Directory<'_>) {
    let mut known: Vec<(PodRef, NodeIx)> = promises.iter().filter_map(|promise| directory.promise(promise)).collect();
    known.sort_by_key(|((group, rank), node)| (!state.groups[group.get()].is_base(*rank), *group, *rank, *node));
    for ((group, rank), node) in known {
        let row = state.group(group);
        let filled = rank >= row.max || row.pods.contains_key(&rank) || row.finished.contains(&rank);
        let rests = !row.is_base(rank) && state.jobs[row.job].growth_paused;
        if !filled && !rests && fits_there(state, group, node) {
            state.place((group, rank), Slot { node, phase: Phase::Promised });
        }
    }
}
