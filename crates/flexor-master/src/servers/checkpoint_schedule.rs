//! Schedules checkpoints, and decides which checkpoint a new job resumes from.
//!
//! Servers read and write the files. The master only schedules, and keeps the position in the data. So it needs no access
//! to the checkpoint directory.

use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ps_membership::{Checkpoint, CheckpointOrder, Partition, PsMembership, Seal, ServerId};
use flexor_model::Reason;
use flexor_model::model_spec::ModelSpec;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

use super::{Servers, State};
use crate::data::{Data, DatasetStatus};
use crate::records;

/// Attempts at the final checkpoint.
const FINAL_ATTEMPTS: u32 = 20;
/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Checkpoint settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// A directory that all parameter servers can access.
    pub folder: String,
    /// Time between two checkpoints.
    pub every: Duration,
    /// Number of checkpoints to keep; 0 keeps all.
    pub keep: u32,
}

/// When the next checkpoint is due, and what the job resumed from.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next: Option<Duration>,
    /// The final checkpoint was started before a worker requested it, and is not complete yet.
    is_final_started: bool,
    /// Why the job cannot resume from the found checkpoint.
    refusal: Option<Cause>,
    /// Descriptions of the checkpoint that the job resumed from, and of the unreadable ones.
    went_on_from: Option<String>,
    passed_over: Vec<String>,
}

/// What `/api/status` shows of checkpoints.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    pub folder: String,
    /// The latest complete checkpoint.
    pub latest: Option<u64>,
    /// Why the last attempt failed, if it did.
    pub failure: Option<String>,
    /// Description of the checkpoint that the job resumed from.
    pub went_on_from: Option<String>,
    /// Descriptions of checkpoints that could not be read.
    pub passed_over: Vec<String>,
}

impl Servers {
    /// A server reports the contents of the checkpoint directory. A new job resumes from it, data and parameters.
    pub(crate) fn record_found_checkpoints(&self, found: &wire::CheckpointsFound) -> Result<(), Cause> {
        if !self.needs_checkpoint_listing() {
            return Ok(());
        }
        if !found.unusable.is_empty() {
            let advice =
                "name a folder in spec.flexor.checkpoints.folder that the parameter servers can read and write";
            self.refuse(Cause::new(Reason::CheckpointFailed, format!("{}; {advice}", found.unusable)));
            return Ok(());
        }
        match self.resume_from(found) {
            Ok(true) => self.log_resumed(found),
            Ok(false) => {}
            // The server reports again.
            Err(cause) if cause.reason == Reason::JournalFull => return Err(cause),
            Err(cause) => {
                let number = found.latest.unwrap_or_default();
                let detail = format!("checkpoint {number} does not fit this job: {}", cause.message);
                self.refuse(Cause::new(cause.reason, detail));
            }
        }
        Ok(())
    }

    /// The report of one server is enough.
    fn needs_checkpoint_listing(&self) -> bool {
        let state = self.lock();
        state.members.needs_checkpoint_listing() && state.schedule.refusal.is_none()
    }

    /// Resumes data and parameters in one journal record, so that they never disagree. Returns whether this report was the
    /// first.
    fn resume_from(&self, found: &wire::CheckpointsFound) -> Result<bool, Cause> {
        let checkpoint = |number| Checkpoint { number, ledger: found.ledger.as_str().into() };
        let latest = || found.latest.map(|number| (checkpoint(number), found.model.as_str()));
        // A checkpoint that was converted from another job has no position in the data.
        let ledger = found.latest.and(Some(found.ledger.as_str()).filter(|ledger| !ledger.is_empty()));
        ledger.map(Data::check_position).transpose()?;
        if found.latest.is_some() {
            ModelSpec::parse(&found.model).map_err(|error| Cause::new(Reason::ModelInvalid, error.to_string()))?;
        }
        let decided = self.decide_and_write(|members, now, facts| {
            if !members.needs_checkpoint_listing() {
                return (Ok(false), Ok(None));
            }
            let Some(ledger) = ledger else {
                members.record_found_checkpoints(latest(), found.highest, now, facts);
                let written = (!facts.is_empty()).then(|| self.append(members, facts)).transpose();
                return (Ok(true), written);
            };
            let rewound = self.0.data.rewind_with(Some(ledger), |data, skipped| {
                members.record_found_checkpoints(latest(), found.highest, now, facts);
                self.0.journal.append(&records::encode_both(facts, data, skipped))
            });
            match rewound {
                Ok(written) => (Ok(true), written.map(Some)),
                Err(cause) => (Err(cause), Ok(None)),
            }
        });
        decided.flatten()
    }

    /// Logs and remembers the checkpoint that the job resumed from.
    fn log_resumed(&self, found: &wire::CheckpointsFound) {
        for damaged in &found.damaged {
            tracing::warn!(damaged, "cannot read a checkpoint");
        }
        let went_on_from = found.latest.map(|number| {
            let progress = match found.ledger.is_empty() {
                true => "the checkpoint does not say which data was learnt: all of it is gone through".to_owned(),
                false => self.describe_progress(),
            };
            let folder = self.checkpoint_folder().unwrap_or_default();
            format!("the job goes on from checkpoint {number} in {folder}: {progress}")
        });
        if let Some(description) = &went_on_from {
            tracing::info!("{description}");
        }
        let mut state = self.lock();
        state.schedule.passed_over.clone_from(&found.damaged);
        state.schedule.went_on_from = went_on_from;
    }

    fn describe_progress(&self) -> String {
        let datasets = self.0.data.status();
        let accounted: u64 = datasets.iter().map(|dataset| dataset.totals.accounted).sum();
        let all_of =
            |DatasetStatus { spec, .. }: &DatasetStatus| Some(spec.records.saturating_mul(spec.epochs?.into()));
        let all: Option<u64> = datasets.iter().map(all_of).sum();
        let all = all.map(|all| format!(" of {all}")).unwrap_or_default();
        format!("{accounted}{all} records are done")
    }

    /// The job cannot resume from the checkpoint directory. Workers get the cause when they declare the model.
    fn refuse(&self, cause: Cause) {
        self.lock().schedule.refusal = Some(cause);
        self.notify();
    }

    /// Waits until it is decided which checkpoint the job resumes from.
    pub(super) async fn wait_for_checkpoint_listing(&self) -> Result<(), Cause> {
        let mut changes = self.0.changes.subscribe();
        loop {
            changes.borrow_and_update();
            {
                let state = self.lock();
                if let Some(refusal) = &state.schedule.refusal {
                    return Err(refusal.clone());
                }
                if !state.members.needs_checkpoint_listing() {
                    return Ok(());
                }
            }
            if changes.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// A server reports on its part of a checkpoint.
    pub(crate) fn record_checkpoint_report(
        &self,
        server: &ServerId,
        report: wire::CheckpointReport,
    ) -> Result<(), Cause> {
        let wire::CheckpointReport { number, result } = report;
        self.decide(|members, now, facts| match result {
            Some(wire::checkpoint_report::Result::Part(part)) => members.record_part(server, number, part, now, facts),
            Some(wire::checkpoint_report::Result::Writing(_)) => members.record_write_progress(server, number, now),
            Some(wire::checkpoint_report::Result::Held(_)) => members.record_snapshot_held(server, number),
            Some(wire::checkpoint_report::Result::Sealed(_)) => members.complete_checkpoint(server, number, now, facts),
            Some(wire::checkpoint_report::Result::Failure(why)) => {
                let cause = Cause::new(Reason::CheckpointFailed, format!("{server}: {why}"));
                members.fail_checkpoint(number, cause, now, facts);
            }
            None => {}
        })
    }

    /// A server reports restored partitions, or a checkpoint that it could not read.
    pub(crate) fn record_restore_report(&self, server: &ServerId, report: &wire::RestoreReport) -> Result<(), Cause> {
        self.decide(|members, now, facts| match report.unreadable {
            Some(number) if !report.damaged => {
                let partitions = report.partitions.iter().map(|one| (Partition(one.partition), one.generation));
                members.reassign_unreadable(server, number, &partitions.collect::<Vec<_>>(), &report.why, now, facts);
            }
            Some(number) => {
                let partitions: Vec<Partition> = report.partitions.iter().map(|one| Partition(one.partition)).collect();
                members.discard_damaged_checkpoint(server, number, &partitions, &report.why, now, facts);
            }
            None => {
                let started = report.partitions.iter();
                let started = started.map(|one| (Partition(one.partition), one.generation, one.version));
                members.record_generation_starts(started, facts);
            }
        })
    }

    /// Makes the final checkpoint when all data is accounted for, and waits for it. Does nothing where no checkpoints are
    /// made. Returns whether all data is still accounted for: in synchronous training a lost server rewinds the job.
    pub(crate) async fn save_final_checkpoint(&self) -> Result<bool, Cause> {
        let mut changes = self.0.changes.subscribe();
        let mut attempts = 0;
        loop {
            changes.borrow_and_update();
            let Some(end) = self.0.data.final_position() else { return Ok(false) };
            if self.0.checkpoints.is_none() {
                return Ok(true);
            }
            let (has_all, is_checkpointing, failure) = {
                let State { members, .. } = &*self.lock();
                (has_all(members, &end), members.is_checkpointing(), members.checkpoint_failure().cloned())
            };
            match (is_checkpointing, failure) {
                (true, _) => {}
                (false, _) if has_all => return Ok(true),
                (false, Some(failure)) if attempts >= FINAL_ATTEMPTS => return Err(failure),
                (false, failure) => {
                    if attempts > 0 && failure.is_some() {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    match self.start_checkpoint()? {
                        true => attempts += 1,
                        // Some partition has no primary: this counts as no attempt, and an immediate retry would fail too.
                        false => tokio::time::sleep(super::TICK).await,
                    }
                }
            }
            let _ = tokio::time::timeout(super::TICK, changes.changed()).await;
        }
    }

    /// Starts a checkpoint when it is due. The interval counts from the end of the last one, because no partition moves
    /// while one is written. None is due without new training: an idle job would only push out older checkpoints.
    pub(super) fn start_checkpoint_when_due(&self) -> Result<(), Cause> {
        let Some(checkpoints) = &self.0.checkpoints else { return Ok(()) };
        let now = self.0.clock.now();
        let is_due = {
            let mut state = self.lock();
            let State { members, schedule, .. } = &mut *state;
            let next = *schedule.next.get_or_insert(now + checkpoints.every);
            let is_due = members.map().epoch.0 > 0 && now >= next;
            if is_due || members.is_checkpointing() {
                schedule.next = Some(now + checkpoints.every);
            }
            is_due
        };
        if is_due && !self.0.data.position_if_any().is_some_and(|learnt| has_all(&self.lock().members, &learnt)) {
            self.start_checkpoint()?;
        }
        Ok(())
    }

    /// Starts the final checkpoint as soon as all data is trained on, before a worker requests it: with one replica, losing
    /// a server until then loses updates. Lets servers write once no transfer runs.
    pub(super) fn continue_checkpoint(&self) -> Result<(), Cause> {
        if self.is_final_due() && self.start_checkpoint()? {
            self.lock().schedule.is_final_started = true;
        }
        let is_quiesced = self.lock().members.is_quiesced();
        if !is_quiesced {
            return Ok(());
        }
        self.decide(|members, now, facts| {
            // Read the ledger first: updates applied between this moment and the write are in the partition's history.
            let (ledger, steps) = self.0.data.position_and_steps();
            members.start_writing(ledger, steps, now, facts);
        })
    }

    /// Whether the final checkpoint is due: all data is trained on, and no complete or started checkpoint has all of it. It
    /// is not due while it cannot start. After a failure, the waiting worker's request retries.
    pub(super) fn is_final_due(&self) -> bool {
        if self.0.checkpoints.is_none() {
            return false;
        }
        let mut state = self.lock();
        let is_missing = self.0.data.final_position().is_some_and(|end| !has_all(&state.members, &end));
        state.schedule.is_final_started &= is_missing;
        let State { members, schedule, .. } = &*state;
        let has_primaries = !members.map().partitions.is_empty()
            && members.map().partitions.iter().all(|replicas| replicas.primary.is_some());
        let is_started = schedule.is_final_started || members.is_checkpointing();
        is_missing && !is_started && has_primaries && members.model().is_some()
    }

    /// Returns whether a checkpoint was started.
    pub(super) fn start_checkpoint(&self) -> Result<bool, Cause> {
        self.decide(PsMembership::start_checkpoint)
    }

    /// None where no checkpoints are made.
    pub fn checkpoint_folder(&self) -> Option<String> {
        self.0.checkpoints.as_ref().map(|checkpoints| checkpoints.folder.clone())
    }

    pub(super) fn checkpoint_directory(&self, list: bool) -> Option<wire::CheckpointDirectory> {
        let Checkpoints { folder, keep, .. } = self.0.checkpoints.as_ref()?;
        Some(wire::CheckpointDirectory { path: folder.clone(), keep: *keep, list })
    }

    pub(super) fn checkpoint_status(&self, state: &State) -> Option<CheckpointStatus> {
        let folder = self.0.checkpoints.as_ref()?.folder.clone();
        let latest = state.members.checkpoints().last().map(|checkpoint| checkpoint.number);
        let failure = state.members.checkpoint_failure().map(ToString::to_string);
        let Schedule { went_on_from, passed_over, .. } = &state.schedule;
        let (went_on_from, passed_over) = (went_on_from.clone(), passed_over.clone());
        Some(CheckpointStatus { folder, latest, failure, went_on_from, passed_over })
    }
}

/// Whether the latest checkpoint was started at this position in the data, so that it has everything up to there.
fn has_all(members: &PsMembership, position: &str) -> bool {
    members.checkpoints().last().is_some_and(|latest| *latest.ledger == *position)
}

pub(super) fn checkpoint_order(order: CheckpointOrder, known: Option<u64>) -> wire::CheckpointOrder {
    let seal = order.seal.map(|Seal { ledger, parts }| wire::Seal {
        ledger: ledger.to_string(),
        parts: parts.iter().map(ToString::to_string).collect(),
        known,
    });
    wire::CheckpointOrder { number: order.number, seal, steps: order.steps }
}
