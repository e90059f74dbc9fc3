//! The tutorial's two jobs on 240 cores, with controllers that lag behind what the planner asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flexor_engine::controller::JobAssignment;
use flexor_model::{Rank, Reason, Resources, RoleName, UnixTime};
use flexor_sched::{JobKey, Location, Node, PodShape, PodSlot, SizedJob, SizedRole};

use super::{ClusterPlanner, ClusterPod, PlannedJob};

fn cores(n: u32) -> Resources {
    [("cpu", n.to_string().parse().unwrap())].into_iter().collect()
}

fn node(name: String, cpu: u32) -> Node {
    Node { name: name.into(), allocatable: cores(cpu), labels: BTreeMap::new(), taints: Vec::new(), schedulable: true }
}

fn job(name: &str, created: u64, min: u32, max: u32) -> PlannedJob {
    let role = |name: &str, min, max| SizedRole {
        name: name.parse().unwrap(),
        min,
        max,
        pod: PodShape { requests: cores(1), ..PodShape::default() },
        target: 0,
        finished: BTreeSet::new(),
    };
    let sized = SizedJob {
        key: name.into(),
        priority: 0,
        created: UnixTime::from_secs(created),
        roles: vec![role("master", 1, 1), role("pserver", 2, 2), role("trainer", min, max)],
        growth_paused: false,
    };
    PlannedJob { sized, promised: Vec::new(), refused: None }
}

/// A cluster whose controllers carry assignments out.
struct World {
    planner: ClusterPlanner,
    nodes: Vec<Node>,
    jobs: Vec<PlannedJob>,
    pods: Vec<ClusterPod>,
    now: UnixTime,
    born: u32,
}

impl World {
    fn new(nodes: u32, cpu: u32) -> Self {
        let nodes = (0..nodes).map(|n| node(format!("n{n:02}"), cpu)).collect();
        let now = UnixTime::from_secs(1000);
        Self { planner: ClusterPlanner::default(), nodes, jobs: Vec::new(), pods: Vec::new(), now, born: 0 }
    }

    fn plan(&mut self) -> Vec<JobKey> {
        self.planner.plan(&self.nodes, &self.pods, &self.jobs, self.now).0
    }

    fn assignment(&self, job: &str) -> std::sync::Arc<JobAssignment> {
        self.planner.assignment(&job.into()).unwrap()
    }

    fn trainers(&self, job: &str) -> usize {
        self.assignment(job).roles[&role("trainer")].ranks.len()
    }

    /// The controllers create the pods of their assignments, and delete those that are not in it.
    fn carry_out(&mut self) {
        for job in &self.jobs {
            let assignment = self.planner.assignment(&job.sized.key).unwrap();
            for (name, of_role) in &assignment.roles {
                let slot = |rank| PodSlot { job: job.sized.key.clone(), role: name.clone(), rank };
                for pod in &mut self.pods {
                    let Some(owner) = &pod.owner else { continue };
                    let is_here = owner.job == job.sized.key && owner.role == *name;
                    pod.terminating |= is_here && !of_role.ranks.contains(&owner.rank);
                }
                for (rank, place) in &of_role.places {
                    let slot = slot(*rank);
                    if self.pods.iter().any(|pod| pod.owner.as_ref() == Some(&slot)) {
                        continue;
                    }
                    self.born += 1;
                    self.pods.push(ClusterPod {
                        uid: format!("uid-{}", self.born),
                        requests: cores(1),
                        location: Location::Bound(place.node.as_str().into()),
                        terminating: false,
                        ended: false,
                        waits_since: None,
                        owner: Some(slot),
                    });
                }
            }
        }
    }

    /// Pods that terminate are gone, and everything is at rest.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..2000 {
            self.now += Duration::from_secs(2);
            let changed = self.plan();
            self.carry_out();
            let before = self.pods.len();
            self.pods.retain(|pod| !pod.terminating);
            quiet = if changed.is_empty() && before == self.pods.len() { quiet + 1 } else { 0 };
            // Longer than the budget takes to allow a swap.
            if quiet > 60 {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

fn role(name: &str) -> RoleName {
    name.parse().unwrap()
}

#[test]
fn the_tutorials_jobs_share_240_cores() {
    let mut world = World::new(40, 6);
    world.jobs.push(job("default/mnist1", 1, 50, 500));
    world.plan();
    assert_eq!(world.trainers("default/mnist1"), 237, "all of the cluster at once");
    world.settle();
    world.jobs.push(job("default/mnist2", 2, 50, 200));
    world.plan();
    assert_eq!(world.trainers("default/mnist1"), 184, "room for the base of the second job");
    let held = world.assignment("default/mnist2").held.clone().unwrap();
    assert_eq!((held.reason, world.trainers("default/mnist2")), (Reason::JobHeld, 0), "{held:?}");
    world.settle();
    assert_eq!((world.trainers("default/mnist1"), world.trainers("default/mnist2")), (150, 84));
    assert_eq!(world.pods.len(), 240);
}

#[test]
fn a_controller_that_lags_is_asked_once() {
    let mut world = World::new(4, 3);
    world.jobs.push(job("default/a", 1, 2, 6));
    world.plan();
    let first = world.assignment("default/a");
    for _ in 0..5 {
        assert_eq!(world.plan(), Vec::<JobKey>::new(), "nothing is observed, so nothing is new");
    }
    assert!(std::sync::Arc::ptr_eq(&first, &world.assignment("default/a")));
    world.carry_out();
    world.plan();
    let trainers = &world.assignment("default/a").roles[&role("trainer")];
    assert_eq!((trainers.ranks.len(), trainers.places.len()), (6, 0), "what is observed needs no place");
}

#[test]
fn a_job_of_a_fixed_size_is_held_whole() {
    let mut world = World::new(40, 6);
    world.jobs.push(job("default/a", 1, 100, 100));
    world.jobs.push(job("default/b", 2, 200, 200));
    world.settle();
    assert_eq!((world.trainers("default/a"), world.trainers("default/b")), (100, 0));
    let held = world.assignment("default/b").held.clone().unwrap();
    assert_eq!(held.message, "default/b needs 203 cores; 137 free, 0 could be freed");
    world.jobs.remove(0);
    world.pods.clear();
    world.settle();
    assert_eq!((world.trainers("default/b"), &world.assignment("default/b").held), (200, &None));
}

#[test]
fn surplus_that_does_not_start_is_given_up_and_growth_rests() {
    let mut world = World::new(2, 4);
    world.jobs.push(job("default/a", 1, 1, 8));
    world.plan();
    world.carry_out();
    let is_surplus = |pod: &&mut ClusterPod| {
        pod.owner.as_ref().is_some_and(|owner| owner.role == role("trainer") && owner.rank == Rank(2))
    };
    world.pods.iter_mut().find(is_surplus).unwrap().waits_since = Some(world.now);
    assert_eq!(world.trainers("default/a"), 5);
    world.now += Duration::from_secs(61);
    world.plan();
    assert_eq!(world.trainers("default/a"), 4, "no other takes its place while growth rests");
    world.carry_out();
    world.pods.retain(|pod| !pod.terminating);
    world.plan();
    assert_eq!(world.trainers("default/a"), 4);
    world.now += Duration::from_secs(31);
    world.plan();
    assert_eq!(world.trainers("default/a"), 5);
}

#[test]
fn a_pod_whose_program_has_ended_keeps_its_slot_and_its_node() {
    let mut world = World::new(2, 4);
    world.jobs.push(job("default/a", 1, 1, 3));
    world.plan();
    world.carry_out();
    world.plan();
    let crashed = world.pods.iter_mut().find(|pod| pod.owner.as_ref().unwrap().rank == Rank(2)).unwrap();
    crashed.ended = true;
    let node = crashed.location.node().unwrap().to_string();
    world.plan();
    let trainers = world.assignment("default/a").roles[&role("trainer")].clone();
    assert_eq!((trainers.ranks.len(), trainers.places[&Rank(2)].node.clone()), (3, node));
    world.jobs[0].sized.roles[2].finished.insert(Rank(2));
    world.jobs[0].sized.growth_paused = true;
    world.planner.asked.clear();
    world.plan();
    assert!(world.assignment("default/a").roles[&role("trainer")].places.is_empty(), "its work is done");
}

#[test]
fn a_new_planner_goes_on_where_the_last_one_was() {
    let mut world = World::new(40, 6);
    world.jobs.push(job("default/mnist1", 1, 50, 500));
    world.settle();
    world.jobs.push(job("default/mnist2", 2, 50, 200));
    world.plan();
    world.carry_out();
    let promised = world.planner.promises.clone();
    assert_eq!(promised.len(), 53);
    for planned in &mut world.jobs {
        planned.promised = promised.iter().filter(|promise| promise.job == planned.sized.key).cloned().collect();
    }
    world.planner = ClusterPlanner::default();
    world.plan();
    assert_eq!(world.planner.promises, promised, "the room stays promised");
    world.settle();
    assert_eq!((world.trainers("default/mnist1"), world.trainers("default/mnist2")), (150, 84));
}

#[test]
fn the_last_work_of_a_job_keeps_its_slot_when_its_pod_is_lost() {
    let mut world = World::new(2, 4);
    world.jobs.push(job("default/a", 1, 1, 3));
    world.plan();
    world.carry_out();
    world.plan();
    world.jobs[0].sized.roles[2].finished.insert(Rank(0));
    world.jobs[0].sized.growth_paused = true;
    let lost = world.pods.iter_mut().find(|pod| pod.owner.as_ref().unwrap().rank == Rank(2)).unwrap();
    lost.terminating = true;
    world.plan();
    assert_eq!(world.trainers("default/a"), 3, "it may hold the last batches");
    world.pods.retain(|pod| !pod.terminating);
    world.plan();
    assert!(world.assignment("default/a").roles[&role("trainer")].places.contains_key(&Rank(2)));
}

#[test]
fn a_held_job_says_its_numbers_anew_only_now_and_then() {
    let mut world = World::new(2, 4);
    world.jobs.push(job("default/large", 1, 20, 20));
    world.jobs.push(job("default/small", 2, 1, 1));
    assert_eq!(world.plan().len(), 2);
    world.carry_out();
    world.pods[0].terminating = true;
    world.now += Duration::from_secs(1);
    assert!(!world.plan().contains(&"default/large".into()), "a second later nothing is said");
}

#[test]
fn a_job_whose_pods_are_refused_leaves_its_room_to_others() {
    let mut world = World::new(2, 4);
    world.jobs.push(job("default/refused", 1, 4, 4));
    world.jobs.push(job("default/other", 2, 2, 2));
    world.plan();
    assert_eq!((world.trainers("default/refused"), world.trainers("default/other")), (4, 0));
    // Its quota allows one pod: the master.
    let refused = |world: &mut World, is_refused: bool| {
        let message = "refused-trainer-0 cannot be created: exceeded quota";
        world.jobs[0].refused = is_refused.then(|| message.to_owned());
    };
    world.carry_out();
    world.pods.retain(|pod| pod.owner.as_ref().unwrap().role == role("master"));
    refused(&mut world, true);
    world.plan();
    assert_eq!(world.trainers("default/other"), 0, "it may be allowed in a moment");
    world.now += Duration::from_secs(61);
    world.plan();
    refused(&mut world, false);
    assert_eq!((world.trainers("default/refused"), world.trainers("default/other")), (0, 2));
    let held = world.assignment("default/refused").held.clone().unwrap();
    assert!(held.message.contains("leaves its room to others for 30 s") && held.message.contains("quota"), "{held}");
    assert_eq!(world.assignment("default/refused").roles[&role("master")].ranks.len(), 1, "it keeps what it has");
    world.carry_out();
    world.plan();
    // It is tried again where there is room.
    world.jobs.remove(1);
    world.pods.retain(|pod| pod.owner.as_ref().unwrap().job == "default/refused".into());
    world.now += Duration::from_secs(31);
    world.plan();
    assert_eq!(world.trainers("default/refused"), 4);
    assert_eq!(world.assignment("default/refused").held, None);
    refused(&mut world, true);
    world.now += Duration::from_secs(61);
    world.plan();
    let held = world.assignment("default/refused").held.clone().unwrap();
    assert!(held.message.contains("for 60 s"), "{held}");
}
