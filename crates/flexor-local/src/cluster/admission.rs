//! Who may run, where only so many CPUs are given out (`--cpus`): what kube-scheduler decides on one node.
//!
//! The more important go first, then those that came first. Whoever finds no room waits; whoever is more important than
//! pods that run takes the room of as few of them as it needs, the least important and youngest first. Room that is
//! being made for somebody is not given to anybody less important meanwhile.
//!
//! Pure: [`decide`] says what to do. It is *not* for jobs as wholes; how many pods a job has is the controller's to say.

use flexor_model::UnixTime;

/// Thousandths of a CPU.
pub(super) type Millis = u64;

/// A pod that wants to run, runs, or is going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// Its unique id.
    pub(super) uid: String,
    /// What it asks for.
    pub(super) cpu: Millis,
    /// How important it is.
    pub(super) priority: i32,
    /// It may take the room of others.
    pub(super) preempts: bool,
    /// The last to give up its room among equals: others depend on it.
    pub(super) is_server: bool,
    /// When it came, and its name: who is before whom among equals.
    pub(super) order: (UnixTime, String),
    /// How far it is.
    pub(super) stage: Stage,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not been started.
    Waits,
    /// It has been started.
    Runs,
    /// It is ending, and has its room until it has.
    Goes,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Admission {
    /// These may run.
    pub(super) start: Vec<String>,
    /// These have to go.
    pub(super) evict: Vec<Eviction>,
    /// These have to wait, with the reason.
    pub(super) wait: Vec<(String, String)>,
}

/// A pod that makes room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    /// Which.
    pub(super) uid: String,
    /// For whom.
    pub(super) by: String,
}

/// Decides about all pods of a cluster that has so many CPUs.
pub(super) fn decide(capacity: Option<Millis>, pods: &[Ask]) -> Admission {
    let mut admission = Admission::default();
    let mut waiting: Vec<&Ask> = pods.iter().filter(|pod| pod.stage == Stage::Waits).collect();
    waiting.sort_by(|a, b| (b.priority, &a.order).cmp(&(a.priority, &b.order)));
    let Some(capacity) = capacity else {
        admission.start.extend(waiting.into_iter().map(|pod| pod.uid.clone()));
        return admission;
    };
    let sum = |stage: Stage| pods.iter().filter(|pod| pod.stage == stage).map(|pod| pod.cpu).sum::<Millis>();
    let mut room = Room { now: capacity.saturating_sub(sum(Stage::Runs) + sum(Stage::Goes)), coming: sum(Stage::Goes) };
    let mut victims: Vec<&Ask> = pods.iter().filter(|pod| pod.stage == Stage::Runs && pod.cpu > 0).collect();
    // The first to go is the last of these.
    victims.sort_by(|a, b| (b.priority, b.is_server, &a.order).cmp(&(a.priority, a.is_server, &b.order)));
    for pod in waiting {
        if pod.cpu <= room.now {
            room.now -= pod.cpu;
            admission.start.push(pod.uid.clone());
            continue;
        }
        admission.wait.push((pod.uid.clone(), no_room(pod.cpu, room.now, capacity)));
        if pod.cpu > capacity || !pod.preempts && pod.cpu > room.now + room.coming {
            continue;
        }
        let evicted = evict_for(pod, room, &victims);
        let freed: Millis = evicted.iter().map(|victim| victim.cpu).sum();
        if pod.cpu > room.now + room.coming + freed {
            continue;
        }
        victims.retain(|victim| !evicted.contains(victim));
        let by = |victim: &&Ask| Eviction { uid: victim.uid.clone(), by: pod.uid.clone() };
        admission.evict.extend(evicted.iter().map(by));
        room = room.kept_for(pod.cpu, freed);
    }
    admission
}

/// What is free, and what will be.
#[derive(Debug, Clone, Copy)]
struct Room {
    now: Millis,
    coming: Millis,
}

impl Room {
    /// What is left to others while so much is kept, of which a part is still being freed.
    fn kept_for(self, cpu: Millis, freed: Millis) -> Room {
        let coming = self.coming + freed;
        let from_now = cpu.min(self.now);
        Room { now: self.now - from_now, coming: coming - (cpu - from_now) }
    }
}

/// The fewest that have to go, so that a pod finds room.
fn evict_for<'a>(pod: &Ask, room: Room, victims: &[&'a Ask]) -> Vec<&'a Ask> {
    let missing = pod.cpu.saturating_sub(room.now + room.coming);
    let mut evicted: Vec<&Ask> = Vec::new();
    let mut freed = 0;
    for victim in victims.iter().rev().filter(|victim| pod.preempts && victim.priority < pod.priority) {
        if freed >= missing {
            break;
        }
        freed += victim.cpu;
        evicted.push(victim);
    }
    // The more important of them are spared where the others are enough.
    for spared in evicted.clone().into_iter().rev() {
        if freed - spared.cpu >= missing {
            freed -= spared.cpu;
            evicted.retain(|victim| *victim != spared);
        }
    }
    evicted
}

fn no_room(cpu: Millis, free: Millis, capacity: Millis) -> String {
    let fit = capacity / cpu.max(1);
    let such = if fit == 1 { "one such pod fits" } else { &format!("{fit} such pods fit") };
    format!("it asks for {} CPUs, {} of {} are free; {such} in all", cpus(cpu), cpus(free), cpus(capacity))
}

/// Thousandths as people write them.
pub(super) fn cpus(millis: Millis) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, cpu: Millis, priority: i32, stage: Stage) -> Ask {
        let (preempts, is_server) = (true, false);
        let order = (UnixTime::EPOCH, uid.to_owned());
        Ask { uid: uid.to_owned(), cpu, priority, preempts, is_server, order, stage }
    }

    fn names(admission: &Admission) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
        let start = admission.start.iter().map(String::as_str).collect();
        let evict = admission.evict.iter().map(|one| one.uid.as_str()).collect();
        (start, evict, admission.wait.iter().map(|(uid, _)| uid.as_str()).collect())
    }

    #[test]
    fn without_a_capacity_everybody_runs() {
        let pods = [pod("a", 64_000, 0, Stage::Waits), pod("b", 64_000, 0, Stage::Waits)];
        assert_eq!(decide(None, &pods).start, ["a", "b"]);
    }

    #[test]
    fn who_finds_no_room_waits_and_is_told_how_many_would_fit() {
        let pods: Vec<Ask> = ["a", "b", "c"].map(|name| pod(name, 1500, 0, Stage::Waits)).into();
        let admission = decide(Some(4000), &pods);
        assert_eq!(names(&admission), (vec!["a", "b"], vec![], vec!["c"]));
        assert_eq!(admission.wait[0].1, "it asks for 1.5 CPUs, 1 of 4 are free; 2 such pods fit in all");
    }

    #[test]
    fn the_more_important_go_first_and_take_only_what_they_need() {
        let mut pods = vec![pod("new", 2000, 10, Stage::Waits)];
        pods.extend(["a", "b", "c", "d"].map(|name| pod(name, 1000, 0, Stage::Runs)));
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec!["d", "c"], vec!["new"]));
        // Half of what it needs is on its way already.
        pods[4].stage = Stage::Goes;
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec!["c"], vec!["new"]));
        pods[3].stage = Stage::Goes;
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec![], vec!["new"]));
        pods.truncate(3);
        assert_eq!(names(&decide(Some(4000), &pods)), (vec!["new"], vec![], vec![]));
    }

    #[test]
    fn room_that_is_made_for_somebody_is_not_given_away() {
        let pods =
            [pod("big", 3000, 10, Stage::Waits), pod("small", 1000, 0, Stage::Waits), pod("a", 2000, 0, Stage::Runs)];
        // One CPU is free, and stays free until `a` is gone.
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec!["a"], vec!["big", "small"]));
    }

    #[test]
    fn equals_and_the_more_important_are_left_alone() {
        let runs = |priority| pod("a", 2000, priority, Stage::Runs);
        for priority in [10, 11] {
            let pods = [pod("new", 1000, 10, Stage::Waits), runs(priority)];
            assert_eq!(names(&decide(Some(2000), &pods)), (vec![], vec![], vec!["new"]));
        }
        let polite = Ask { preempts: false, ..pod("new", 1000, 10, Stage::Waits) };
        assert_eq!(names(&decide(Some(2000), &[polite, runs(0)])), (vec![], vec![], vec!["new"]));
    }

    #[test]
    fn nobody_goes_where_that_would_not_be_enough() {
        let pods =
            [pod("new", 3000, 10, Stage::Waits), pod("a", 1000, 0, Stage::Runs), pod("b", 2000, 20, Stage::Runs)];
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec![], vec!["new"]));
        let pods = [pod("huge", 5000, 10, Stage::Waits), pod("a", 1000, 0, Stage::Runs)];
        assert_eq!(names(&decide(Some(4000), &pods)), (vec![], vec![], vec!["huge"]));
    }

    #[test]
    fn a_small_pod_is_spared_where_a_large_one_has_to_go_anyway() {
        let pods = [pod("new", 2000, 10, Stage::Waits), pod("a", 2000, 0, Stage::Runs), pod("b", 1000, 0, Stage::Runs)];
        assert_eq!(names(&decide(Some(3000), &pods)), (vec![], vec!["a"], vec!["new"]));
    }

    #[test]
    fn a_server_is_the_last_of_its_equals_to_go() {
        let server = Ask { is_server: true, ..pod("z", 1000, 0, Stage::Runs) };
        let pods = [pod("new", 1000, 10, Stage::Waits), server, pod("a", 1000, 0, Stage::Runs)];
        assert_eq!(names(&decide(Some(2000), &pods)).1, ["a"]);
    }

    #[test]
    fn who_asks_for_nothing_always_runs() {
        let pods = [pod("master", 0, 0, Stage::Waits), pod("a", 2000, 0, Stage::Runs)];
        assert_eq!(decide(Some(1000), &pods).start, ["master"]);
    }
}
