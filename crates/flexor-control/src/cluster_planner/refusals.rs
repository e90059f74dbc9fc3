//! Jobs whose pods the API server refuses, by a quota for instance: the room for them is given to others, and the job
//! is tried again after a pause.
//!
//! Without this a job that can never start would keep room from jobs of others for ever.

use std::collections::BTreeMap;
use std::collections::HashSet;

use flexor_engine::Cause;
use flexor_model::{Reason, UnixTime};
use flexor_sched::JobKey;

use super::pause::Pause;

/// The jobs that rest, or have rested lately.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<JobKey, Refusal>);

#[derive(Debug)]
struct Refusal {
    pause: Pause,
    /// What the API server said.
    message: String,
}

impl Refusals {
    /// The pods of a job were refused for too long.
    pub(super) fn note(&mut self, job: &JobKey, message: &str, now: UnixTime) {
        let pause = Pause::after(self.0.get(job).map(|refusal| refusal.pause), now);
        self.0.insert(job.clone(), Refusal { pause, message: message.to_owned() });
    }

    pub(super) fn forget(&mut self, known: &HashSet<&JobKey>, now: UnixTime) {
        self.0.retain(|job, refusal| known.contains(job) && refusal.pause.counts(now));
    }

    /// Whether a job has no room for now.
    pub(super) fn rests(&self, job: &JobKey, now: UnixTime) -> bool {
        self.0.get(job).is_some_and(|refusal| refusal.pause.until > now)
    }

    /// Why such a job has no pods.
    pub(super) fn cause(&self, job: &JobKey, now: UnixTime) -> Option<Cause> {
        let Refusal { pause, message } = self.0.get(job).filter(|refusal| refusal.pause.until > now)?;
        let seconds = pause.length().as_secs();
        let message =
            format!("{job} leaves its room to others for {seconds} s, because its pods are refused: {message}");
        Some(Cause::new(Reason::JobHeld, message))
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = UnixTime> {
        self.0.values().map(|refusal| refusal.pause.until)
    }
}
