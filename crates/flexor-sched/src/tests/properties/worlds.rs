//! Random clusters, and what may happen to them between two plans.

use std::collections::BTreeMap;

use flexor_model::{Rank, Resources, UnixTime};
use proptest::prelude::*;
use proptest::sample::select;

use crate::tests::fixture::*;
use crate::{JobKey, Location, Node, NodeName, Pod, PodSlot, Promise, SizedJob, Taint, TaintEffect, Toleration};

/// What happens between two plans.
#[derive(Debug, Clone)]
pub(in crate::tests) enum Event {
    /// The scheduler binds what waits for its node.
    Bind,
    /// Everything that is ending is gone.
    Drain,
    /// So many swaps are earned.
    Earn(u32),
    /// A pod is gone, whoever it belongs to.
    Lose(usize),
    /// A pod is deleted by somebody else, and drains.
    Evict(usize),
    /// A pod does not start in time.
    Overdue(usize),
    /// A cordon is set or lifted.
    Cordon(usize),
    /// A node is gone, and its pods later or never.
    NodeGone(usize),
    /// A node comes.
    NodeComes(Node),
    /// An online pod is bound where the scheduler finds room.
    Online(usize, u32),
    /// An online pod has preempted its way and waits for room to drain.
    Nominated(usize, u32),
    /// A job is submitted.
    Submit(SizedJob),
    /// A job has ended.
    JobEnds(usize),
    /// A user changes the bounds of a job's trainers.
    Edit(usize, u32, u32),
    /// A trainer has finished its part.
    Finish(usize, u32),
    /// A back-off is over.
    Unpause,
    /// Another leader does not find the promises.
    ForgetPromises,
}

fn any_requests() -> impl Strategy<Value = Resources> {
    let shapes: [&[(&str, &str)]; 7] = [
        &[("cpu", "1")],
        &[("cpu", "1"), ("memory", "1Gi")],
        &[("cpu", "500m"), ("memory", "2Gi")],
        &[("cpu", "2")],
        &[("cpu", "3"), ("memory", "1Gi")],
        &[("cpu", "1"), ("nvidia.com/gpu", "1")],
        &[],
    ];
    select(shapes.map(resources).to_vec())
}

pub(in crate::tests) fn any_node(at: usize) -> impl Strategy<Value = Node> {
    let pods = prop_oneof![3 => Just(None), 1 => (1_u32..12).prop_map(Some)];
    (1_u32..14, 1_u32..16, 0_u32..3, pods, 0_u8..8, 0_u8..8).prop_map(move |(cpu, memory, gpu, pods, zone, taint)| {
        let (cpu, memory, gpu) = (cpu.to_string(), format!("{memory}Gi"), gpu.to_string());
        let mut allocatable = resources(&[("cpu", &cpu), ("memory", &memory), ("nvidia.com/gpu", &gpu)]);
        if let Some(pods) = pods {
            allocatable = allocatable.plus(&resources(&[("pods", &pods.to_string())]));
        }
        let zone = if zone < 3 { "a" } else { "b" };
        let tainted = Taint { key: "gpu".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule };
        Node {
            labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            taints: if taint == 0 { vec![tainted] } else { Vec::new() },
            ..node(&format!("n{at:02}"), allocatable)
        }
    })
}

fn any_job() -> impl Strategy<Value = SizedJob> {
    let shape = (any_requests(), any_requests(), 0_u32..4, 0_u32..12, 0_u32..3, 0_u8..6, 0_u8..6);
    (0_usize..12, 0_i32..3, 0_u64..5, shape).prop_map(|(name, priority, created, shape)| {
        let (master, worker, min, span, servers, zone, tolerant) = shape;
        let mut roles = vec![role("trainer", min, min + span, worker)];
        if servers > 0 {
            roles.push(role("server", servers, servers, master));
        }
        for role in &mut roles {
            if zone == 0 {
                role.pod.node_selector.insert("zone".to_owned(), "a".to_owned());
            }
            if tolerant == 0 {
                role.pod.tolerations.push(Toleration { key: None, value: None, effect: None });
            }
        }
        let created = UnixTime::from_secs(created);
        SizedJob { key: format!("team/job{name:02}").into(), priority, created, roles, growth_paused: false }
    })
}

fn worlds(nodes: Vec<Node>, mut jobs: Vec<SizedJob>) -> World {
    jobs.sort_by(|a, b| a.key.cmp(&b.key));
    jobs.dedup_by(|a, b| a.key == b.key);
    World { nodes, jobs, ..World::default() }
}

pub(in crate::tests) fn any_world() -> impl Strategy<Value = World> {
    let nodes = (1_usize..7).prop_flat_map(|count| (0..count).map(any_node).collect::<Vec<_>>());
    (nodes, proptest::collection::vec(any_job(), 0..5)).prop_map(|(nodes, jobs)| worlds(nodes, jobs))
}

/// Nodes of whole cores, and jobs of 1-core pods only.
pub(in crate::tests) fn one_class_world() -> impl Strategy<Value = World> {
    let nodes = proptest::collection::vec(1_u32..12, 1..8);
    let jobs = proptest::collection::vec((0_u32..6, 0_u32..40), 1..6);
    (nodes, jobs).prop_map(|(nodes, jobs)| {
        let nodes = nodes.iter().enumerate().map(|(at, n)| node(&format!("n{at:02}"), cores(*n)));
        let job = |(at, (min, span)): (usize, &(u32, u32))| {
            trainers(&format!("job{at}"), at as u64, *min, min + span, cores(1))
        };
        worlds(nodes.collect(), jobs.iter().enumerate().map(job).collect())
    })
}

/// Input that contradicts itself in every way: overfull nodes, double ranks, promises for anybody.
pub(in crate::tests) fn nonsense() -> impl Strategy<Value = World> {
    let name = |at: u32| NodeName::from(format!("n{at:02}"));
    let owner =
        (0_usize..12, 0_u32..20).prop_map(|(job, rank)| PodSlot { job: key(job), role: trainer(), rank: Rank(rank) });
    let location = (0_u8..3, 0_u32..9).prop_map(move |(kind, at)| match kind {
        0 => Location::Unassigned,
        1 => Location::Assigned(name(at)),
        _ => Location::Bound(name(at)),
    });
    let pod = (any_requests(), location, any::<bool>(), any::<bool>(), proptest::option::of(owner)).prop_map(
        |(requests, location, terminating, overdue, owner)| Pod { requests, location, terminating, overdue, owner },
    );
    let promise = (0_usize..12, 0_u32..20, 0_u32..9).prop_map(move |(job, rank, at)| Promise {
        job: key(job),
        role: trainer(),
        rank: Rank(rank),
        node: name(at),
    });
    let lists = (proptest::collection::vec(pod, 0..60), proptest::collection::vec(promise, 0..20), 0_u32..9);
    (any_world(), lists).prop_map(|(world, (pods, promises, swaps))| World { pods, promises, swaps, ..world })
}

fn key(job: usize) -> JobKey {
    format!("team/job{job:02}").into()
}

pub(in crate::tests) fn any_event() -> impl Strategy<Value = Event> {
    let at = 0_usize..64;
    prop_oneof![
        6 => Just(Event::Bind),
        6 => Just(Event::Drain),
        4 => (0_u32..4).prop_map(Event::Earn),
        1 => at.clone().prop_map(Event::Lose),
        1 => at.clone().prop_map(Event::Evict),
        1 => at.clone().prop_map(Event::Overdue),
        2 => at.clone().prop_map(Event::Cordon),
        1 => at.clone().prop_map(Event::NodeGone),
        1 => (50_usize..60).prop_flat_map(any_node).prop_map(Event::NodeComes),
        1 => (at.clone(), 1_u32..5).prop_map(|(at, cores)| Event::Online(at, cores)),
        1 => (at.clone(), 1_u32..5).prop_map(|(at, cores)| Event::Nominated(at, cores)),
        4 => any_job().prop_map(Event::Submit),
        1 => at.clone().prop_map(Event::JobEnds),
        1 => (at.clone(), 0_u32..4, 0_u32..9).prop_map(|(at, min, span)| Event::Edit(at, min, min + span)),
        1 => (at, 0_u32..4).prop_map(|(at, rank)| Event::Finish(at, rank)),
        1 => Just(Event::Unpause),
        1 => Just(Event::ForgetPromises),
    ]
}

impl Event {
    pub(in crate::tests) fn happen(self, world: &mut World) {
        let pick = |at: usize, of: usize| (of > 0).then(|| at % of.max(1));
        match self {
            Event::Bind => world.bind(),
            Event::Drain => world.drain(),
            Event::Earn(swaps) => world.swaps = (world.swaps + swaps).min(30),
            Event::Lose(at) => {
                if let Some(at) = pick(at, world.pods.len()) {
                    world.pods.remove(at);
                }
            }
            Event::Evict(at) => {
                if let Some(at) = pick(at, world.pods.len()) {
                    world.pods[at].terminating = true;
                }
            }
            Event::Overdue(at) => {
                if let Some(at) = pick(at, world.pods.len()) {
                    world.pods[at].overdue = world.pods[at].owner.is_some();
                }
            }
            Event::Cordon(at) => {
                if let Some(at) = pick(at, world.nodes.len()) {
                    world.nodes[at].schedulable ^= true;
                }
            }
            Event::NodeGone(at) => {
                if let Some(at) = pick(at, world.nodes.len()) {
                    world.nodes.remove(at);
                }
            }
            Event::NodeComes(node) => {
                if world.nodes.iter().all(|known| known.name != node.name) {
                    world.nodes.push(node);
                }
            }
            Event::Online(at, cpu) => {
                if let Some(at) = pick(at, world.nodes.len()) {
                    let name = world.nodes[at].name.clone();
                    world.pods.push(foreign(name.as_str(), cores(cpu)));
                }
            }
            Event::Nominated(at, cpu) => {
                if let Some(at) = pick(at, world.nodes.len()) {
                    let name = world.nodes[at].name.clone();
                    let location = Location::Assigned(name.clone());
                    world.pods.push(Pod { location, ..foreign(name.as_str(), cores(cpu)) });
                }
            }
            Event::Submit(job) => {
                if world.jobs.iter().all(|known| known.key != job.key) {
                    // Its predecessor's pods are gone by then.
                    world.pods.retain(|pod| pod.owner.as_ref().is_none_or(|owner| owner.job != job.key));
                    world.jobs.push(job);
                }
            }
            Event::JobEnds(at) => {
                if let Some(at) = pick(at, world.jobs.len()) {
                    let job = world.jobs[at].key.clone();
                    world.end_job(job.as_str());
                }
            }
            Event::Edit(at, min, max) => {
                if let Some(at) = pick(at, world.jobs.len()) {
                    let role = &mut world.jobs[at].roles[0];
                    (role.min, role.max) = (min, max);
                }
            }
            Event::Finish(at, rank) => {
                if let Some(at) = pick(at, world.jobs.len()) {
                    let job = world.jobs[at].key.clone();
                    let is_it = |pod: &Pod| {
                        let owner = pod.owner.as_ref();
                        owner.is_some_and(|o| o.job == job && o.role == trainer() && o.rank == Rank(rank))
                    };
                    world.pods.retain(|pod| !is_it(pod));
                    world.jobs[at].roles[0].finished.insert(Rank(rank));
                    world.jobs[at].growth_paused = true;
                }
            }
            Event::Unpause => world.jobs.iter_mut().for_each(|job| job.growth_paused = false),
            Event::ForgetPromises => world.promises.clear(),
        }
    }
}
