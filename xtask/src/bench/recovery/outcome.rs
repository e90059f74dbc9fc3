//! The outcome of a job after a fault.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use flexor_testbed::torchrun::{ProbeEventKind, Workers};

use super::job::Job;

/// A job that is not back after this long is taken for dead.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// How a job took it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// Seconds until it was back; `None` when it was not within [`LIMIT`].
    pub(super) recovered: Option<f64>,
    /// Seconds until all workers of the new world had made a step; `None` also where there is no new world.
    pub(super) first_step: Option<f64>,
    /// The most restarts that one agent charged for it.
    pub(super) charged: u32,
    /// The most times that one agent started its workers for it.
    pub(super) starts: usize,
    /// How many of the nodes that should have continued have ended.
    pub(super) ended: usize,
}

/// The state of a job before a fault.
pub(super) struct Watch {
    measured_from: SystemTime,
    old: Workers,
}

impl Watch {
    /// To be called just before.
    pub(super) fn begin(job: &Job<'_>) -> Watch {
        let old = Workers::of(job.agents());
        Watch { measured_from: old.since(), old }
    }

    /// For slow faults: the moment from which to measure.
    pub(super) fn measured_from(self, moment: SystemTime) -> Watch {
        Watch { measured_from: moment, ..self }
    }

    /// Waits until all nodes are in a world of this size.
    pub(super) fn new_world(&self, job: &Job<'_>, world: usize) -> Outcome {
        let deadline = Instant::now() + LIMIT;
        let reached = |kind| {
            let left = deadline.saturating_duration_since(Instant::now());
            let events = self.old.await_successors(job.agents(), world, kind, left).ok()?;
            events.into_iter().map(|event| event.at).max()
        };
        let restarted = reached(ProbeEventKind::Start);
        let first_step = restarted.and_then(|_| reached(ProbeEventKind::Step));
        let starts: Vec<_> = job.agents().map(|agent| self.old.started_since(agent)).collect();
        Outcome {
            recovered: restarted.map(|moment| self.seconds_until(moment)),
            first_step: first_step.map(|moment| self.seconds_until(moment)),
            charged: starts.iter().flatten().map(|event| event.restart).max().unwrap_or(0),
            starts: starts.iter().map(Vec::len).max().unwrap_or(0),
            ended: job.ended(),
        }
    }

    /// Waits until all nodes have ended well.
    pub(super) fn success(&self, job: &Job<'_>) -> Outcome {
        let released = job.await_success(Instant::now() + LIMIT);
        let recovered = released.map(|moment| self.seconds_until(moment));
        Outcome { recovered, first_step: None, charged: 0, starts: 0, ended: 0 }
    }

    fn seconds_until(&self, moment: SystemTime) -> f64 {
        moment.duration_since(self.measured_from).unwrap_or_default().as_secs_f64()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.recovered {
            Some(seconds) => write!(f, "{seconds:.2} s")?,
            None => write!(f, "never within {LIMIT:?}")?,
        }
        if let Some(seconds) = self.first_step {
            write!(f, ", next step done {seconds:.2} s")?;
        }
        write!(f, "; {} restart(s) charged, workers started {} time(s)", self.charged, self.starts)?;
        if self.ended > 0 {
            write!(f, "; {} of its nodes gave up", self.ended)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reads_as_a_sentence() {
        let back = Outcome { recovered: Some(3.406), first_step: Some(7.9), charged: 1, starts: 1, ended: 0 };
        assert_eq!(back.to_string(), "3.41 s, next step done 7.90 s; 1 restart(s) charged, workers started 1 time(s)");
        let dead = Outcome { recovered: None, first_step: None, charged: 0, starts: 0, ended: 2 };
        let text = "never within 90s; 0 restart(s) charged, workers started 0 time(s); 2 of its nodes gave up";
        assert_eq!(dead.to_string(), text);
    }
}
