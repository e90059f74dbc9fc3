//! The pods of a simulated job: when they run, and whether there is room for them.

use crate::scaling::{Allotment, Ceiling};

/// A pod.
#[derive(Debug, Clone)]
pub(super) struct SimPod {
    /// The number of this incarnation; no other pod has it.
    pub(super) uid: u32,
    pub(super) allotment: Allotment,
    pub(super) state: PodState,
}

/// How far a pod is. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PodState {
    NoRoom { since: f64 },
    Starting { until: f64 },
    Running,
}

/// Makes pods, and finds room for them.
#[derive(Debug)]
pub(super) struct Scheduler {
    capacity: Ceiling,
    start: f64,
    next_uid: u32,
}

impl Scheduler {
    pub(super) fn new(capacity: Ceiling, start: f64) -> Self {
        Self { capacity, start, next_uid: 0 }
    }

    pub(super) fn create(&mut self, allotment: Allotment, now: f64) -> SimPod {
        self.next_uid += 1;
        SimPod { uid: self.next_uid, allotment, state: PodState::NoRoom { since: now } }
    }

    /// Starts pods for which there is room beside those that run.
    pub(super) fn schedule<'a>(&self, pods: impl Iterator<Item = &'a mut SimPod>, now: f64) {
        let mut pods: Vec<&mut SimPod> = pods.collect();
        let placed = pods.iter().filter(|pod| !pod.has_no_room());
        let mut total = placed.fold(Allotment::default(), |sum, pod| sum.plus(pod.allotment));
        for pod in &mut pods {
            match pod.state {
                PodState::NoRoom { .. } if self.capacity.fits(total.plus(pod.allotment)) => {
                    total = total.plus(pod.allotment);
                    pod.state = PodState::Starting { until: now + self.start };
                }
                PodState::Starting { until } if until <= now => pod.state = PodState::Running,
                PodState::NoRoom { .. } | PodState::Starting { .. } | PodState::Running => {}
            }
        }
    }
}

impl SimPod {
    pub(super) fn runs(&self) -> bool {
        self.state == PodState::Running
    }

    pub(super) fn has_no_room(&self) -> bool {
        matches!(self.state, PodState::NoRoom { .. })
    }

    /// Seconds without room.
    pub(super) fn waited(&self, now: f64) -> f64 {
        match self.state {
            PodState::NoRoom { since } => now - since,
            PodState::Starting { .. } | PodState::Running => 0.0,
        }
    }
}
