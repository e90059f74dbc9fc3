//! When checkpoints are made, and what a job begins with.
//!
//! Servers write and read files; a master only says when, and keeps where the data stood. So it needs no place that it
//! shares with them.

use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::psmembers::{Checkpoint, Partition, PsMembers, SaveOrder, Seal, ServerId};
use flexor_model::Reason;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

use super::{Servers, State};
use crate::data::{Data, DatasetStatus};
use crate::records;

/// How often a checkpoint at the end is tried before it is given up.
const LAST_TRIES: u32 = 20;
/// How long after, where the one before failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Where checkpoints of the parameters are kept, and how often they are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints {
    /// A folder that all parameter servers reach.
    pub folder: String,
    /// How much time lies between two.
    pub every: Duration,
    /// How many are kept; 0 is all.
    pub keep: u32,
}

/// When the next one is due, and what became of the last.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next: Option<Duration>,
    /// One that is to have everything was begun without being asked for, and there is none yet.
    is_end_begun: bool,
    /// Why the job cannot begin with what was found.
    refusal: Option<Cause>,
    /// What it has begun with, in words, and what was passed over for it.
    went_on_from: Option<String>,
    passed_over: Vec<String>,
}

/// What `/api/status` shows of checkpoints.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// Where they are.
    pub folder: String,
    /// The latest that is complete.
    pub latest: Option<u64>,
    /// Why the last attempt came to nothing, if it did.
    pub failure: Option<String>,
    /// What the job went on from when this master began it, in words.
    pub went_on_from: Option<String>,
    /// Checkpoints that lay there then and cannot be read, in words.
    pub passed_over: Vec<String>,
}

impl Servers {
    /// A server has looked what lies in the folder. A job that has not begun goes on from there, data and parameters.
    pub(crate) fn found(&self, found: &wire::CheckpointsFound) -> Result<(), Cause> {
        if !self.has_to_look() {
            return Ok(());
        }
        if !found.unusable.is_empty() {
            let advice =
                "name a folder in spec.flexor.checkpoints.folder that the parameter servers can read and write";
            self.refuse(Cause::new(Reason::CheckpointFailed, format!("{}; {advice}", found.unusable)));
            return Ok(());
        }
        match self.go_on_from(found) {
            Ok(true) => self.tell_found(found),
            Ok(false) => {}
            // Who has found it says it again.
            Err(cause) if cause.reason == Reason::JournalFull => return Err(cause),
            Err(cause) => {
                let number = found.latest.unwrap_or_default();
                let detail = format!("checkpoint {number} does not fit this job: {}", cause.message);
                self.refuse(Cause::new(cause.reason, detail));
            }
        }
        Ok(())
    }

    /// One server's word is enough.
    fn has_to_look(&self) -> bool {
        let state = self.lock();
        state.members.has_to_look() && state.schedule.refusal.is_none()
    }

    /// Data and parameters go on from what was found, in one record, so that they always go by the same word. Whether
    /// they do, and no other word came before; or why they cannot.
    fn go_on_from(&self, found: &wire::CheckpointsFound) -> Result<bool, Cause> {
        let checkpoint = |number| Checkpoint { number, ledger: found.ledger.as_str().into() };
        let latest = || found.latest.map(|number| (checkpoint(number), found.model.as_str()));
        // One that was made of what another job had learnt does not say which data that was.
        let ledger = found.latest.and(Some(found.ledger.as_str()).filter(|ledger| !ledger.is_empty()));
        ledger.map(Data::check_position).transpose()?;
        let decided = self.decide_and_write(|members, now, facts| {
            if !members.has_to_look() {
                return (Ok(false), Ok(None));
            }
            let Some(ledger) = ledger else {
                members.found(latest(), found.highest, now, facts);
                let written = (!facts.is_empty()).then(|| self.append(members, facts)).transpose();
                return (Ok(true), written);
            };
            let wound = self.0.data.rewind_with(Some(ledger), |data, skipped| {
                members.found(latest(), found.highest, now, facts);
                self.0.journal.append(&records::encode_both(facts, data, skipped))
            });
            match wound {
                Ok(written) => (Ok(true), written.map(Some)),
                Err(cause) => (Err(cause), Ok(None)),
            }
        });
        decided.flatten()
    }

    /// Tells what the job has begun with.
    fn tell_found(&self, found: &wire::CheckpointsFound) {
        for damaged in &found.damaged {
            tracing::warn!(damaged, "a checkpoint cannot be read");
        }
        let went_on_from = found.latest.map(|number| {
            let how_far = match found.ledger.is_empty() {
                true => "the checkpoint does not say which data was learnt: all of it is gone through".to_owned(),
                false => self.how_far(),
            };
            let folder = self.checkpoint_folder().unwrap_or_default();
            format!("the job goes on from checkpoint {number} in {folder}: {how_far}")
        });
        if let Some(told) = &went_on_from {
            tracing::info!("{told}");
        }
        let mut state = self.lock();
        state.schedule.passed_over.clone_from(&found.damaged);
        state.schedule.went_on_from = went_on_from;
    }

    /// How much of the data is done.
    fn how_far(&self) -> String {
        let datasets = self.0.data.status();
        let accounted: u64 = datasets.iter().map(|dataset| dataset.totals.accounted).sum();
        let all_of =
            |DatasetStatus { spec, .. }: &DatasetStatus| Some(spec.records.saturating_mul(spec.epochs?.into()));
        let all: Option<u64> = datasets.iter().map(all_of).sum();
        let all = all.map(|all| format!(" of {all}")).unwrap_or_default();
        format!("{accounted}{all} records are done")
    }

    /// The job cannot begin with what lies in its folder: whoever declares a model hears why.
    fn refuse(&self, cause: Cause) {
        self.lock().schedule.refusal = Some(cause);
        self.stir();
    }

    /// Waits until it is known what the job begins with.
    pub(super) async fn looked(&self) -> Result<(), Cause> {
        let mut stirred = self.0.stirred.subscribe();
        loop {
            stirred.borrow_and_update();
            {
                let state = self.lock();
                if let Some(refusal) = &state.schedule.refusal {
                    return Err(refusal.clone());
                }
                if !state.members.has_to_look() {
                    return Ok(());
                }
            }
            if stirred.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// How writing a checkpoint went.
    pub(crate) fn save_report(&self, server: &ServerId, report: wire::SaveReport) -> Result<(), Cause> {
        let wire::SaveReport { number, result } = report;
        self.decide(|members, now, facts| match result {
            Some(wire::save_report::Result::Part(part)) => members.part_written(server, number, part, now, facts),
            Some(wire::save_report::Result::Writing(_)) => members.writing(server, number, now),
            Some(wire::save_report::Result::Held(_)) => members.held(server, number),
            Some(wire::save_report::Result::Sealed(_)) => members.sealed(server, number, now, facts),
            Some(wire::save_report::Result::Failure(why)) => {
                let cause = Cause::new(Reason::CheckpointFailed, format!("{server}: {why}"));
                members.not_saved(number, cause, now, facts);
            }
            None => {}
        })
    }

    /// Partitions have begun again, or could not.
    pub(crate) fn begin_report(&self, server: &ServerId, report: &wire::BeginReport) -> Result<(), Cause> {
        self.decide(|members, now, facts| match report.unreadable {
            Some(number) if !report.damaged => {
                let begun = report.partitions.iter().map(|one| (Partition(one.partition), one.origin));
                members.not_read(server, number, &begun.collect::<Vec<_>>(), &report.why, now, facts);
            }
            Some(number) => {
                let partitions: Vec<Partition> = report.partitions.iter().map(|one| Partition(one.partition)).collect();
                members.unreadable(server, number, &partitions, &report.why, now, facts);
            }
            None => {
                for one in &report.partitions {
                    members.begun(Partition(one.partition), one.origin, one.version, facts);
                }
            }
        })
    }

    /// Makes a checkpoint of what the job has learnt in the end, when all data is accounted for, and waits for it.
    /// Nothing to do where none are made. Whether all data still is accounted for: a server that is lost now takes
    /// everybody back where training goes in steps.
    pub(crate) async fn save_at_last(&self) -> Result<bool, Cause> {
        let mut stirred = self.0.stirred.subscribe();
        let mut tries = 0;
        loop {
            stirred.borrow_and_update();
            let Some(end) = self.0.data.final_position() else { return Ok(false) };
            if self.0.checkpoints.is_none() {
                return Ok(true);
            }
            let (has_all, is_saving, failure) = {
                let State { members, .. } = &*self.lock();
                (has_all(members, &end), members.is_saving(), members.unsaved().cloned())
            };
            match (is_saving, failure) {
                (true, _) => {}
                (false, _) if has_all => return Ok(true),
                (false, Some(failure)) if tries >= LAST_TRIES => return Err(failure),
                (false, failure) => {
                    if tries > 0 && failure.is_some() {
                        tokio::time::sleep(TRY_AGAIN).await;
                    }
                    match self.begin_saving()? {
                        true => tries += 1,
                        // Nobody keeps the parameters, or not all of them: no attempt, and looking again at once is of no
                        // use.
                        false => tokio::time::sleep(super::LOOK_AGAIN).await,
                    }
                }
            }
            let _ = tokio::time::timeout(super::LOOK_AGAIN, stirred.changed()).await;
        }
    }

    /// Begins a checkpoint when it is due: so long after the one before was ended, because nothing is moved while one is
    /// written. None is when nothing was learnt since: a job that waits would only push out what is older.
    pub(super) fn save_when_due(&self) -> Result<(), Cause> {
        let Some(checkpoints) = &self.0.checkpoints else { return Ok(()) };
        let now = self.0.clock.now();
        let is_due = {
            let mut state = self.lock();
            let State { members, schedule, .. } = &mut *state;
            let next = *schedule.next.get_or_insert(now + checkpoints.every);
            let is_due = members.map().epoch.0 > 0 && now >= next;
            if is_due || members.is_saving() {
                schedule.next = Some(now + checkpoints.every);
            }
            is_due
        };
        if is_due && !self.0.data.position_if_any().is_some_and(|learnt| has_all(&self.lock().members, &learnt)) {
            self.begin_saving()?;
        }
        Ok(())
    }

    /// Begins the last checkpoint as soon as all data is learnt, before anybody asks for it: with one copy, what a server
    /// that is lost until then has learnt is gone. Lets servers write when nothing is moved any more.
    pub(super) fn go_on_saving(&self) -> Result<(), Cause> {
        if self.is_end_due() && self.begin_saving()? {
            self.lock().schedule.is_end_begun = true;
        }
        let is_still = self.lock().members.is_still();
        if !is_still {
            return Ok(());
        }
        self.decide(|members, now, facts| {
            // The ledger first: what is applied after this moment and before a server writes is known to be applied.
            let (ledger, steps) = self.0.data.position_and_steps();
            members.write(ledger, steps, now, facts);
        })
    }

    /// All is learnt, no checkpoint has all of it, and none that will was begun yet. What cannot be begun is not due:
    /// nothing would come of it but another look. If it fails, who waits for it tries again.
    pub(super) fn is_end_due(&self) -> bool {
        if self.0.checkpoints.is_none() {
            return false;
        }
        let mut state = self.lock();
        let is_missing = self.0.data.final_position().is_some_and(|end| !has_all(&state.members, &end));
        state.schedule.is_end_begun &= is_missing;
        let State { members, schedule, .. } = &*state;
        let is_kept = !members.map().seats.is_empty() && members.map().seats.iter().all(|seat| seat.owner.is_some());
        let is_begun = schedule.is_end_begun || members.is_saving();
        is_missing && !is_begun && is_kept && members.model().is_some()
    }

    /// Whether one is begun.
    pub(super) fn begin_saving(&self) -> Result<bool, Cause> {
        self.decide(PsMembers::begin_saving)
    }

    /// Where checkpoints lie, if some are made.
    pub fn checkpoint_folder(&self) -> Option<String> {
        self.0.checkpoints.as_ref().map(|checkpoints| checkpoints.folder.clone())
    }

    pub(super) fn checkpoint_place(&self, look: bool) -> Option<wire::CheckpointPlace> {
        let Checkpoints { folder, keep, .. } = self.0.checkpoints.as_ref()?;
        Some(wire::CheckpointPlace { folder: folder.clone(), keep: *keep, look })
    }

    pub(super) fn checkpoint_status(&self, state: &State) -> Option<CheckpointStatus> {
        let folder = self.0.checkpoints.as_ref()?.folder.clone();
        let latest = state.members.checkpoints().last().map(|checkpoint| checkpoint.number);
        let failure = state.members.unsaved().map(ToString::to_string);
        let Schedule { went_on_from, passed_over, .. } = &state.schedule;
        let (went_on_from, passed_over) = (went_on_from.clone(), passed_over.clone());
        Some(CheckpointStatus { folder, latest, failure, went_on_from, passed_over })
    }
}

/// Whether the latest checkpoint has everything that was learnt until the data stood there: it was begun when it did.
fn has_all(members: &PsMembers, position: &str) -> bool {
    members.checkpoints().last().is_some_and(|latest| *latest.ledger == *position)
}

pub(super) fn save_order(order: SaveOrder, known: Option<u64>) -> wire::SaveOrder {
    let seal = order.seal.map(|Seal { ledger, parts }| wire::Seal {
        ledger: ledger.to_string(),
        parts: parts.iter().map(ToString::to_string).collect(),
        known,
    });
    wire::SaveOrder { number: order.number, seal, steps: order.steps }
}
