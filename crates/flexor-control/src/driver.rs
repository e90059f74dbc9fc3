//! The reconcile loop of one job: observe, reconcile, pace, execute, until the controller has nothing left to do.
//!
//! The laptop cluster and the operator run it whenever something about a job has changed, or when the time that it
//! returned has come. It keeps nothing that must survive a restart. Which job is driven when is its caller's to say.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::controller::{self, Action, Event, ObservedJob};
use flexor_model::{Rank, Reason, RoleName, UnixTime};
use futures::FutureExt;
use futures::future::join_all;

use crate::pacing::{self, CreatedPod, CreationEvents, Pacer, Pacing, Step};

/// A job that still changes after so many passes waits for the next change.
const MOST_PASSES: usize = 100;
/// An action that failed is decided and tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// A job whose reconciliation panicked is reconciled again after this, if nothing changes before.
const RETRY_AFTER_PANIC: Duration = Duration::from_secs(30);

/// A world in which jobs run: it can be observed, and it executes actions.
pub trait Executor: Sync {
    type JobKey: Sync;
    type Error: fmt::Display + Send;

    fn now(&self) -> UnixTime;

    /// Hands everything that exists of a job to `view`; none if the job is gone.
    fn observe<T>(&self, job: &Self::JobKey, view: impl FnOnce(&ObservedJob<'_>) -> T) -> Option<T>;

    /// Executes one action; [`Action::Record`] goes to [`record`](Self::record) instead.
    fn execute(&self, job: &Self::JobKey, action: Action) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Records an event. Events are best effort: a lost one never keeps an action back.
    fn record(&self, job: &Self::JobKey, event: Event);

    /// Whether the creation of a pod was refused, although executing it did not fail: it is tried again later.
    fn is_refused(&self, _job: &Self::JobKey, _pod: &str) -> bool {
        false
    }

    /// What an error means for people. None: it is no news, since it passes by itself.
    fn reason_of(_error: &Self::Error) -> Option<Reason> {
        Some(Reason::CreateRefused)
    }

    /// A pass has executed something.
    fn pass_finished(&self, _job: &Self::JobKey) {}
}

/// The reconcile loop of one job.
#[derive(Debug)]
pub struct JobDriver {
    pacing: Pacing,
    pacer: Pacer,
    /// The last error, which is recorded once.
    last_error: Option<String>,
    /// Losses that were not recorded yet.
    losses: Losses,
}

/// Losses of pods whose slots are about to be filled again, by slot, with the time of each.
type Losses = BTreeMap<(RoleName, Rank), (Event, UnixTime)>;

impl JobDriver {
    pub fn new(pacing: Pacing) -> Self {
        Self { pacing, pacer: Pacer::new(pacing), last_error: None, losses: Losses::new() }
    }

    /// Reconciles a job until it is settled or has to wait. Returns when to reconcile again if nothing changes before.
    ///
    /// Stops for good once `actions_left` are executed, as if the process were killed there; tests of restarts use that.
    ///
    /// A panic is this job's alone: it becomes an event of the job, and the job is reconciled again later.
    pub async fn run<E: Executor>(
        &mut self,
        executor: &E,
        job: &E::JobKey,
        actions_left: &mut usize,
    ) -> Option<UnixTime> {
        let settled = AssertUnwindSafe(self.reconcile_until_settled(executor, job, actions_left)).catch_unwind().await;
        let requeue_at = settled.unwrap_or_else(|panic| {
            // Half a decision may be in it.
            self.pacer = Pacer::new(self.pacing);
            let message = format!("a defect of Flexor, not of the job: {}; please report it", panic_message(&*panic));
            self.record_once(executor, job, Reason::ReconcileFailed, message);
            Some(executor.now() + RETRY_AFTER_PANIC)
        });
        earlier(requeue_at, self.record_losses(executor, job))
    }

    /// Records the losses that have waited long enough for a replacement. Returns when the next one has.
    fn record_losses<E: Executor>(&mut self, executor: &E, job: &E::JobKey) -> Option<UnixTime> {
        let (now, wait) = (executor.now(), self.pacing.merge_losses_within);
        let due = self.losses.extract_if(.., |_, (_, at)| *at + wait <= now);
        due.for_each(|(_, (event, _))| executor.record(job, event));
        self.losses.values().map(|(_, at)| *at + wait).min()
    }

    async fn reconcile_until_settled<E: Executor>(
        &mut self,
        executor: &E,
        job: &E::JobKey,
        actions_left: &mut usize,
    ) -> Option<UnixTime> {
        let mut requeue_at: Option<UnixTime> = None;
        for _ in 0..MOST_PASSES {
            let now = executor.now();
            let reconciliation = executor.observe(job, |observed| controller::reconcile(observed, now))?;
            let paced = self.pacer.pace(reconciliation, now);
            requeue_at = earlier(requeue_at, paced.requeue_at);
            if paced.steps.is_empty() {
                // The same error is recorded again when it comes back.
                self.last_error = None;
                break;
            }
            let losses = (!self.pacing.merge_losses_within.is_zero()).then_some(&mut self.losses);
            let executed = execute(executor, job, paced.steps, losses, actions_left).await;
            executor.pass_finished(job);
            if let Err(error) = executed {
                let message = format!("{error}; what was decided is tried again every second");
                if let Some(reason) = E::reason_of(&error) {
                    self.record_once(executor, job, reason, message);
                }
                return earlier(requeue_at, Some(executor.now() + RETRY_AFTER));
            }
            if *actions_left == 0 {
                break;
            }
        }
        requeue_at
    }

    fn record_once<E: Executor>(&mut self, executor: &E, job: &E::JobKey, reason: Reason, message: String) {
        if self.last_error.as_ref() != Some(&message) {
            executor.record(job, Event { pod: None, cause: Cause::new(reason, message.as_str()) });
            self.last_error = Some(message);
        }
    }
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

fn earlier(a: Option<UnixTime>, b: Option<UnixTime>) -> Option<UnixTime> {
    a.into_iter().chain(b).min()
}

/// Executes steps until one fails or no actions are left.
async fn execute<E: Executor>(
    executor: &E,
    job: &E::JobKey,
    steps: Vec<Step>,
    mut losses: Option<&mut Losses>,
    actions_left: &mut usize,
) -> Result<(), E::Error> {
    for Step { mut actions, creation_events } in steps {
        actions.truncate(*actions_left);
        *actions_left -= actions.len();
        for action in &mut actions {
            let Action::RecordLoss { event, role, rank } = action else { continue };
            match &mut losses {
                Some(losses) => _ = losses.insert((role.clone(), *rank), (event.clone(), executor.now())),
                None => *action = Action::Record(event.clone()),
            }
        }
        let executed = join_all(actions.into_iter().map(|action| execute_one(executor, job, action)));
        let mut created = Vec::new();
        let mut failure = None;
        for result in executed.await {
            match result {
                Ok(Some((slot, name, cause))) => {
                    let loss = losses.as_mut().and_then(|losses| losses.remove(&slot)).map(|(event, _)| event.cause);
                    created.push(CreatedPod { name, cause, loss });
                }
                Ok(None) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let per_event = match creation_events {
            CreationEvents::PerPod => 1,
            CreationEvents::PerBatch => created.len().max(1),
        };
        let events = created.chunks(per_event).filter_map(pacing::creation_event);
        events.for_each(|event| executor.record(job, event));
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(())
}

/// Executes an action. Returns the pod that it created: its slot, its name, and why.
async fn execute_one<E: Executor>(
    executor: &E,
    job: &E::JobKey,
    action: Action,
) -> Result<Option<((RoleName, Rank), String, Cause)>, E::Error> {
    match action {
        Action::Record(event) => executor.record(job, event),
        // It is recorded with its replacement, or later.
        Action::RecordLoss { .. } => {}
        Action::CreatePod(desired) => {
            let (slot, pod, cause) =
                ((desired.role.clone(), desired.rank), desired.name.clone(), desired.cause.clone());
            executor.execute(job, Action::CreatePod(desired)).await?;
            return Ok((!executor.is_refused(job, &pod)).then_some((slot, pod, cause)));
        }
        Action::SetStatus(_)
        | Action::NoteStatus(_)
        | Action::SetPlanStatus { .. }
        | Action::DeletePod { .. }
        | Action::CreateService(_)
        | Action::DeleteService { .. }
        | Action::DeleteJob { .. } => executor.execute(job, action).await?,
    }
    Ok(None)
}
