//! Admission of pods to a limited number of CPUs (`--cpus`): what kube-scheduler decides for one node.
//!
//! Pods are admitted by priority, then by age. A pod that does not fit waits. A pod of higher priority than running ones
//! preempts as few of them as it needs, those of the lowest priority and the youngest first. CPUs that are being freed for
//! a pod are reserved for it.
//!
//! Pure: [`decide`] returns what to do. It is *not* for whole jobs: the controller decides how many pods a job has.

use flexor_model::UnixTime;

/// Thousandths of a CPU.
pub(super) type Millis = u64;

/// The request of a pod that waits, runs, or is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodRequest {
    pub(super) uid: String,
    pub(super) cpu: Millis,
    pub(super) priority: i32,
    /// It may preempt others.
    pub(super) preempts: bool,
    /// The last to be preempted among equals, because others depend on it.
    pub(super) is_server: bool,
    /// Its creation time and name, which order pods of equal priority.
    pub(super) order: (UnixTime, String),
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Running,
    /// It keeps its CPUs until it has ended.
    Terminating,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) start: Vec<String>,
    pub(super) evict: Vec<Eviction>,
    /// With the reason.
    pub(super) wait: Vec<(String, String)>,
}

/// A pod that is preempted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    pub(super) uid: String,
    /// The uid of the pod that gets its CPUs.
    pub(super) by: String,
}

/// Decides about all pods of a cluster with this capacity, or without a limit.
pub(super) fn decide(capacity: Option<Millis>, pods: &[PodRequest]) -> Admission {
    let mut admission = Admission::default();
    let mut waiting: Vec<&PodRequest> = pods.iter().filter(|pod| pod.stage == Stage::Waiting).collect();
    waiting.sort_by(|a, b| (b.priority, &a.order).cmp(&(a.priority, &b.order)));
    let Some(capacity) = capacity else {
        admission.start.extend(waiting.into_iter().map(|pod| pod.uid.clone()));
        return admission;
    };
    let sum = |stage: Stage| pods.iter().filter(|pod| pod.stage == stage).map(|pod| pod.cpu).sum::<Millis>();
    let mut free = Free {
        now: capacity.saturating_sub(sum(Stage::Running) + sum(Stage::Terminating)),
        coming: sum(Stage::Terminating),
    };
    let mut victims: Vec<&PodRequest> = pods.iter().filter(|pod| pod.stage == Stage::Running && pod.cpu > 0).collect();
    // The last of these is preempted first.
    victims.sort_by(|a, b| (b.priority, b.is_server, &a.order).cmp(&(a.priority, a.is_server, &b.order)));
    for pod in waiting {
        if pod.cpu <= free.now {
            free.now -= pod.cpu;
            admission.start.push(pod.uid.clone());
            continue;
        }
        admission.wait.push((pod.uid.clone(), wait_reason(pod.cpu, free.now, capacity)));
        if pod.cpu > capacity || !pod.preempts && pod.cpu > free.now + free.coming {
            continue;
        }
        let evicted = evict_for(pod, free, &victims);
        let freed: Millis = evicted.iter().map(|victim| victim.cpu).sum();
        if pod.cpu > free.now + free.coming + freed {
            continue;
        }
        victims.retain(|victim| !evicted.contains(victim));
        let by = |victim: &&PodRequest| Eviction { uid: victim.uid.clone(), by: pod.uid.clone() };
        admission.evict.extend(evicted.iter().map(by));
        free = free.after_reservation(pod.cpu, freed);
    }
    admission
}

/// CPUs that are free now, and that are being freed.
#[derive(Debug, Clone, Copy)]
struct Free {
    now: Millis,
    coming: Millis,
}

impl Free {
    /// What is left to others after a reservation, for which `freed` is being freed.
    fn after_reservation(self, cpu: Millis, freed: Millis) -> Free {
        let coming = self.coming + freed;
        let from_now = cpu.min(self.now);
        Free { now: self.now - from_now, coming: coming - (cpu - from_now) }
    }
}

/// The fewest pods that have to be preempted for a pod.
fn evict_for<'a>(pod: &PodRequest, free: Free, victims: &[&'a PodRequest]) -> Vec<&'a PodRequest> {
    let missing = pod.cpu.saturating_sub(free.now + free.coming);
    let mut evicted: Vec<&PodRequest> = Vec::new();
    let mut freed = 0;
    for victim in victims.iter().rev().filter(|victim| pod.preempts && victim.priority < pod.priority) {
        if freed >= missing {
            break;
        }
        freed += victim.cpu;
        evicted.push(victim);
    }
    // Those of higher priority are spared if the others are enough.
    for spared in evicted.clone().into_iter().rev() {
        if freed - spared.cpu >= missing {
            freed -= spared.cpu;
            evicted.retain(|victim| *victim != spared);
        }
    }
    evicted
}

fn wait_reason(cpu: Millis, free: Millis, capacity: Millis) -> String {
    let fit = capacity / cpu.max(1);
    let such = if fit == 1 { "one such pod fits" } else { &format!("{fit} such pods fit") };
    format!("it asks for {} CPUs, {} of {} are free; {such} in all", cpus(cpu), cpus(free), cpus(capacity))
}

/// Thousandths of a CPU as a decimal number.
pub(super) fn cpus(millis: Millis) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, cpu: Millis, priority: i32, stage: Stage) -> PodRequest {
        let (preempts, is_server) = (true, false);
        let order = (UnixTime::EPOCH, uid.to_owned());
        PodRequest { uid: uid.to_owned(), cpu, priority, preempts, is_server, order, stage }
    }

    fn names(admission: &Admission) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
        let start = admission.start.iter().map(String::as_str).collect();
        let evict = admission.evict.iter().map(|one| one.uid.as_str()).collect();
        (start, evict, admission.wait.iter().map(|(uid, _)| uid.as_str()).collect())
    }

    #[test]
    fn without_a_capacity_every_pod_runs() {
        let pods = [pod("a", 64_000, 0, Stage::Waiting), pod("b", 64_000, 0, Stage::Waiting)];
        assert_eq!(decide(None, &pods).start, ["a", "b"]);
    }

    #[test]
    fn a_pod_that_does_not_fit_waits_and_its_reason_says_how_many_would() {
        let pods: Vec<PodRequest> = ["a", "b", "c"].map(|name| pod(name, 1500, 0, Stage::Waiting)).into();
        let admission = decide(Some(4000), &pods);
        assert_eq!(names(&admission), (vec!["a", "b"], vec![], vec!["c"]));
        assert_eq!(admission.wait[0].1, "it asks for 1.5 CPUs, 1 of 4 are free; 2 such pods fit in all");
    }

    #[test]
    fn pods_of_higher_priority_go_first_and_preempt_only_what_they_need() {
        let mut pods = vec![pod("new", 2000, 10, Stage::Waiting)];
        pods.extend(["a", "b", "c", "d"].map(|name| pod(name, 1000, 0, Stage::Running)));
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec!["d", "c"], vec!["new"]));
        // Half of what it needs is being freed already.
        pods[4].stage = Stage::Terminating;
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec!["c"], vec!["new"]));
        pods[3].stage = Stage::Terminating;
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec![], vec!["new"]));
        pods.truncate(3);
        assert_eq!(names(&decide(Some(4000), &pods)), (vec!["new"], vec![], vec![]));
    }

    #[test]
    fn cpus_that_are_freed_for_a_pod_are_reserved_for_it() {
        let pods = [
            pod("big", 3000, 10, Stage::Waiting),
            pod("small", 1000, 0, Stage::Waiting),
            pod("a", 2000, 0, Stage::Running),
        ];
        // One CPU is free, and stays free until `a` is gone.
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec!["a"], vec!["big", "small"]));
    }

    #[test]
    fn pods_of_equal_or_higher_priority_are_not_preempted() {
        let runs = |priority| pod("a", 2000, priority, Stage::Running);
        for priority in [10, 11] {
            let pods = [pod("new", 1000, 10, Stage::Waiting), runs(priority)];
            assert_eq!(names(&decide(Some(2000), &pods)), (vec![], vec![], vec!["new"]));
        }
        let polite = PodRequest { preempts: false, ..pod("new", 1000, 10, Stage::Waiting) };
        assert_eq!(names(&decide(Some(2000), &[polite, runs(0)])), (vec![], vec![], vec!["new"]));
    }

    #[test]
    fn no_pod_is_preempted_if_that_would_not_be_enough() {
        let pods = [
            pod("new", 3000, 10, Stage::Waiting),
            pod("a", 1000, 0, Stage::Running),
            pod("b", 2000, 20, Stage::Running),
        ];
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec![], vec!["new"]));
        let pods = [pod("huge", 5000, 10, Stage::Waiting), pod("a", 1000, 0, Stage::Running)];
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec![], vec!["huge"]));
    }

    #[test]
    fn a_small_pod_is_spared_if_a_large_one_has_to_go_anyway() {
        let pods = [
            pod("new", 2000, 10, Stage::Waiting),
            pod("a", 2000, 0, Stage::Running),
            pod("b", 1000, 0, Stage::Running),
        ];
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec!["a"], vec!["new"]));
    }

    #[test]
    fn a_server_is_the_last_of_its_equals_to_be_preempted() {
        let server = PodRequest { is_server: true, ..pod("z", 1000, 0, Stage::Running) };
        let pods = [pod("new", 1000, 10, Stage::Waiting), server, pod("a", 1000, 0, Stage::Running)];
        assert_eq!(names(&decide(Some(2000), &pods)).1, ["a"]);
    }

    #[test]
    fn a_pod_that_requests_nothing_always_runs() {
        let pods = [pod("master", 0, 0, Stage::Waiting), pod("a", 2000, 0, Stage::Running)];
        assert_eq!(decide(Some(1000), &pods).start, ["master"]);
    }
}
