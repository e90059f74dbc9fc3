//! Checkpoints: every primary writes its partitions, then one server seals the checkpoint with a manifest.
//!
//! No transfer starts meanwhile. A checkpoint that was started and not sealed does not count, and its number is never used
//! again. Losing a server aborts the attempt, because other servers are then primary of its partitions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{MapEpoch, Reason};
use serde::{Deserialize, Serialize};

use super::fact::Fact;
use super::partition_map::{Partition, PartitionGeneration, PartitionReplicas, Source};
use super::server::ServerId;
use super::{Cause, Mode, PsMembership};

/// An attempt fails when running transfers make no progress for this long.
const QUIESCE_LIMIT: Duration = Duration::from_secs(30);
/// An attempt fails when a server writes nothing for this long. Servers report progress, however much they write.
const WRITE_LIMIT: Duration = Duration::from_secs(120);

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub number: u64,
    /// The position in the data when the checkpoint started, as the ledger encodes it.
    pub ledger: Arc<str>,
}

/// A checkpoint in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointAttempt {
    number: u64,
    phase: CheckpointPhase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CheckpointPhase {
    /// Running transfers complete first.
    Quiescing { last_progress: Duration },
    /// Every primary of this map writes its partitions.
    Writing {
        map: MapEpoch,
        ledger: Arc<str>,
        /// In synchronous training: the number of committed steps in the checkpoint.
        steps: Option<u64>,
        /// Servers that have not finished, with the time of their last progress.
        unfinished: BTreeMap<ServerId, Duration>,
        /// Servers that do not hold their snapshot yet.
        without_snapshot: BTreeSet<ServerId>,
        parts: Vec<Arc<str>>,
    },
    /// All parts are written; one server writes the manifest.
    Sealing { by: ServerId, ledger: Arc<str>, parts: Vec<Arc<str>>, since: Duration },
}

/// An order to a server to write its part of a checkpoint, or the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointOrder {
    pub number: u64,
    /// In synchronous training: the number of committed steps in the checkpoint.
    pub steps: Option<u64>,
    /// Set when all parts are written: the server writes the manifest.
    pub seal: Option<Seal>,
}

/// Contents of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The position in the data.
    pub ledger: Arc<str>,
    /// The manifest entry of each server, as the server encoded it.
    pub parts: Vec<Arc<str>>,
}

impl PsMembership {
    /// A server reports the contents of the checkpoint directory: the latest complete checkpoint with its model, and the
    /// highest number ever used. A new job resumes from that checkpoint.
    pub fn record_found_checkpoints(
        &mut self,
        latest: Option<(Checkpoint, &str)>,
        highest: u64,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if self.has_checkpoint_listing {
            return;
        }
        self.has_checkpoint_listing = true;
        if highest > self.last_checkpoint_number {
            self.decide(Fact::CheckpointStarted { checkpoint: highest }, facts);
        }
        let is_new = self.map.epoch.0 == 0 && self.model.is_none() && self.checkpoints.is_empty();
        if let Some((Checkpoint { number, ledger }, model)) = latest.filter(|_| is_new) {
            self.decide(Fact::ModelDeclared { model: model.into() }, facts);
            self.decide(self.completed_fact(number, ledger), facts);
        }
        self.reconcile(facts);
    }

    /// Whether a server has to list the checkpoint directory before the first map.
    pub fn needs_checkpoint_listing(&self) -> bool {
        self.settings.keep.is_some() && !self.has_checkpoint_listing && self.map.epoch.0 == 0
    }

    /// Starts a checkpoint if possible; returns whether it did. There is at most one at a time. No transfer starts until
    /// it ends.
    pub fn start_checkpoint(&mut self, now: Duration, facts: &mut Vec<Fact>) -> bool {
        self.clock.advance(now);
        let is_possible = self.model.is_some() && !self.map.partitions.is_empty() && self.count_without_primary() == 0;
        let starts = self.checkpoint_attempt.is_none() && is_possible;
        if starts {
            let number = self.last_checkpoint_number + 1;
            self.decide(Fact::CheckpointStarted { checkpoint: number }, facts);
            let phase = CheckpointPhase::Quiescing { last_progress: self.clock.now() };
            self.checkpoint_attempt = Some(CheckpointAttempt { number, phase });
            self.reconcile(facts);
        }
        starts
    }

    /// Whether a checkpoint is in progress.
    pub fn is_checkpointing(&self) -> bool {
        self.checkpoint_attempt.is_some()
    }

    /// Whether a checkpoint is ready for [`Self::start_writing`]: no transfer runs, and every primary is connected.
    pub fn is_quiesced(&self) -> bool {
        let is_quiescing = self
            .checkpoint_attempt
            .as_ref()
            .is_some_and(|attempt| matches!(attempt.phase, CheckpointPhase::Quiescing { .. }));
        let has_primary =
            |replicas: &PartitionReplicas| replicas.primary.as_ref().is_some_and(|primary| self.is_connected(primary));
        is_quiescing && self.transfers.is_empty() && self.map.partitions.iter().all(has_primary)
    }

    /// Lets the servers write. `ledger` is the position in the data, `steps` the number of committed synchronous steps.
    pub fn start_writing(
        &mut self,
        ledger: impl Into<Arc<str>>,
        steps: Option<u64>,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if !self.is_quiesced() {
            return;
        }
        let (map, without_snapshot, now) = (self.map.epoch, self.primaries(), self.clock.now());
        if let Some(attempt) = &mut self.checkpoint_attempt {
            let ledger = ledger.into();
            let unfinished = without_snapshot.iter().map(|server| (server.clone(), now)).collect();
            let parts = Vec::new();
            attempt.phase = CheckpointPhase::Writing { map, ledger, steps, unfinished, without_snapshot, parts };
        }
        self.reconcile(facts);
    }

    /// A transfer that a checkpoint waits for makes progress.
    pub(super) fn record_transfer_progress(&mut self) {
        if let Some(CheckpointAttempt { phase: CheckpointPhase::Quiescing { last_progress }, .. }) =
            &mut self.checkpoint_attempt
        {
            *last_progress = self.clock.now();
        }
    }

    /// A server has written some of its part.
    pub fn record_write_progress(&mut self, server: &ServerId, number: u64, now: Duration) {
        self.clock.advance(now);
        if let Some(CheckpointAttempt { number: own, phase: CheckpointPhase::Writing { unfinished, .. } }) =
            &mut self.checkpoint_attempt
            && *own == number
            && let Some(last_progress) = unfinished.get_mut(server)
        {
            *last_progress = self.clock.now();
        }
    }

    /// A server has written its part.
    pub fn record_part(
        &mut self,
        server: &ServerId,
        number: u64,
        part: impl Into<Arc<str>>,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if let Some(CheckpointAttempt { number: own, phase }) = &mut self.checkpoint_attempt
            && *own == number
            && let CheckpointPhase::Writing { ledger, unfinished, without_snapshot, parts, .. } = phase
            && unfinished.remove(server).is_some()
        {
            without_snapshot.remove(server);
            parts.push(part.into());
            if unfinished.is_empty() {
                let (ledger, parts) = (Arc::clone(ledger), std::mem::take(parts));
                *phase = CheckpointPhase::Sealing { by: server.clone(), ledger, parts, since: self.clock.now() };
            }
        }
        self.reconcile(facts);
    }

    /// A server holds the snapshot that it will write: later updates are not in the checkpoint.
    pub fn record_snapshot_held(&mut self, server: &ServerId, number: u64) {
        if let Some(CheckpointAttempt { number: own, phase: CheckpointPhase::Writing { without_snapshot, .. } }) =
            &mut self.checkpoint_attempt
            && *own == number
        {
            without_snapshot.remove(server);
        }
    }

    /// The step of the checkpoint while some server does not hold its snapshot. No further step may be committed then.
    pub fn held_step(&self) -> Option<u64> {
        match &self.checkpoint_attempt.as_ref()?.phase {
            CheckpointPhase::Writing { without_snapshot, steps, .. } => steps.filter(|_| !without_snapshot.is_empty()),
            CheckpointPhase::Quiescing { .. } | CheckpointPhase::Sealing { .. } => None,
        }
    }

    /// The manifest is written: the checkpoint is complete.
    pub fn complete_checkpoint(&mut self, server: &ServerId, number: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if let Some(CheckpointAttempt { number: own, phase: CheckpointPhase::Sealing { by, ledger, .. } }) =
            &self.checkpoint_attempt
            && *own == number
            && by == server
        {
            let ledger = Arc::clone(ledger);
            self.checkpoint_attempt = None;
            self.checkpoint_failure = None;
            self.decide(self.completed_fact(number, ledger), facts);
        }
        self.reconcile(facts);
    }

    /// A server cannot write its part or the manifest.
    pub fn fail_checkpoint(&mut self, number: u64, cause: Cause, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.checkpoint_attempt.as_ref().is_some_and(|attempt| attempt.number == number) {
            self.abort_checkpoint(cause);
        }
        self.reconcile(facts);
    }

    /// A server that restores partitions finds the checkpoint damaged. They restart from the checkpoint before it.
    pub fn discard_damaged_checkpoint(
        &mut self,
        server: &ServerId,
        number: u64,
        partitions: &[Partition],
        why: &str,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let cause = Cause::new(Reason::CheckpointDamaged, format!("checkpoint {number} cannot be read: {why}"));
        if self.checkpoints.iter().any(|known| known.number == number) {
            self.decide(Fact::CheckpointDamaged { checkpoint: number, cause: cause.clone() }, facts);
        }
        let is_from_it = |replicas: &PartitionReplicas| replicas.generation.source == Source::Checkpoint(number);
        let named = partitions.iter().filter_map(|partition| Some((*partition, self.map.replicas(*partition)?)));
        let changed: Vec<(Partition, PartitionReplicas)> = named
            .filter(|(_, replicas)| is_from_it(replicas) && replicas.is_kept_by(server))
            .map(|(partition, replicas)| match replicas.primary.as_ref() == Some(server) {
                // The backup of a primary that never started has nothing to offer either.
                true => (partition, PartitionReplicas { primary: None, backup: None, ..replicas.clone() }),
                false => (partition, PartitionReplicas { backup: None, ..replicas.clone() }),
            })
            .collect();
        if !changed.is_empty() {
            let has_orphans = changed.iter().any(|(_, replicas)| replicas.primary.is_none());
            self.publish_map(changed, cause, facts);
            if has_orphans {
                self.orphaned_at = Some(self.orphaned_at.unwrap_or(self.clock.now()));
            }
        }
        self.reconcile(facts);
    }

    /// A server cannot read a checkpoint and has stopped trying; `partitions` come with their generations. The checkpoint
    /// may be intact. The other replica of a partition goes on alone. A partition without one restarts on the next
    /// server, or on the same one where there is no other.
    pub fn reassign_unreadable(
        &mut self,
        server: &ServerId,
        number: u64,
        partitions: &[(Partition, u64)],
        why: &str,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let connected = self.connected_servers();
        let next = connected.iter().position(|one| one == server).map_or(0, |index| index + 1);
        let next = connected.get(next).or(connected.first()).unwrap_or(server);
        let source = Source::Checkpoint(number);
        let changed = partitions.iter().filter_map(|(partition, generation)| {
            let replicas = self.map.replicas(*partition)?;
            let reported = PartitionGeneration { number: *generation, source };
            let is_current = replicas.generation == reported && replicas.is_kept_by(server);
            let backup = replicas.backup.clone().filter(|backup| self.is_connected(backup));
            let replicas = match (replicas.primary.as_ref() == Some(server), backup) {
                (false, _) => PartitionReplicas { backup: None, ..replicas.clone() },
                // Both started from the same values, and the primary has applied nothing.
                (true, Some(backup)) => PartitionReplicas { primary: Some(backup), backup: None, ..replicas.clone() },
                (true, None) => {
                    let generation = PartitionGeneration { number: generation + 1, source };
                    PartitionReplicas { primary: Some(next.clone()), backup: None, generation, ..replicas.clone() }
                }
            };
            is_current.then_some((*partition, replicas))
        });
        let changed: Vec<(Partition, PartitionReplicas)> = changed.collect();
        if !changed.is_empty() {
            let detail = format!("{server} cannot read checkpoint {number}, which is tried again: {why}");
            self.publish_map(changed, Cause::new(Reason::CheckpointUnreadable, detail), facts);
        }
        self.reconcile(facts);
    }

    pub fn checkpoint_order(&self, server: &ServerId) -> Option<CheckpointOrder> {
        let attempt = self.checkpoint_attempt.as_ref()?;
        let number = attempt.number;
        match &attempt.phase {
            CheckpointPhase::Writing { unfinished, steps, .. } if unfinished.contains_key(server) => {
                Some(CheckpointOrder { number, steps: *steps, seal: None })
            }
            CheckpointPhase::Sealing { by, ledger, parts, .. } if by == server => {
                let seal = Seal { ledger: Arc::clone(ledger), parts: parts.clone() };
                Some(CheckpointOrder { number, steps: None, seal: Some(seal) })
            }
            CheckpointPhase::Quiescing { .. } | CheckpointPhase::Writing { .. } | CheckpointPhase::Sealing { .. } => {
                None
            }
        }
    }

    /// Complete checkpoints that are not known to be damaged, the latest last.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Why the last attempt failed, if it did.
    pub fn checkpoint_failure(&self) -> Option<&Cause> {
        self.checkpoint_failure.as_ref()
    }

    /// Aborts an attempt that cannot complete.
    pub(super) fn check_checkpoint_progress(&mut self) {
        let Some(attempt) = &self.checkpoint_attempt else { return };
        let changed = || "the servers changed while it was written".to_owned();
        let is_late = |since: Duration, limit: Duration| self.clock.now() >= since + limit;
        let failure = match &attempt.phase {
            CheckpointPhase::Quiescing { last_progress } => {
                is_late(*last_progress, QUIESCE_LIMIT).then(|| "partition transfers took too long".to_owned())
            }
            CheckpointPhase::Writing { map, .. } if *map != self.map.epoch => Some(changed()),
            CheckpointPhase::Writing { unfinished, .. } => {
                let late = unfinished.iter().find(|(_, last_progress)| is_late(**last_progress, WRITE_LIMIT));
                late.map(|(server, _)| format!("{server} has written nothing for {} s", WRITE_LIMIT.as_secs()))
            }
            CheckpointPhase::Sealing { by, .. } if !self.is_registered(by) => Some(changed()),
            CheckpointPhase::Sealing { by, since, .. } => is_late(*since, WRITE_LIMIT)
                .then(|| format!("{by} has not written the manifest for {} s", WRITE_LIMIT.as_secs())),
        };
        if let Some(why) = failure {
            self.abort_checkpoint(Cause::new(Reason::CheckpointFailed, why));
        }
    }

    fn completed_fact(&self, checkpoint: u64, ledger: Arc<str>) -> Fact {
        let known = self.checkpoints.iter().map(|known| known.number);
        let limit = self.settings.keep.filter(|keep| *keep > 0).unwrap_or(usize::MAX);
        let kept = known.chain([checkpoint]).rev().take(limit);
        Fact::CheckpointCompleted { checkpoint, ledger, oldest: kept.last().unwrap_or(checkpoint) }
    }

    pub(super) fn apply_checkpoint_completed(&mut self, checkpoint: u64, ledger: &Arc<str>, oldest: u64) {
        self.last_checkpoint_number = self.last_checkpoint_number.max(checkpoint);
        self.checkpoints.push(Checkpoint { number: checkpoint, ledger: Arc::clone(ledger) });
        self.checkpoints.retain(|known| known.number >= oldest);
    }

    /// Forgets all but the last `keep` checkpoints. Servers keep as many different ones, and delete those that equal a
    /// later one.
    pub(super) fn forget_old_checkpoints(&mut self) {
        let keep = self.settings.keep.unwrap_or(0);
        if keep > 0 && self.checkpoints.len() > keep {
            self.checkpoints.drain(..self.checkpoints.len() - keep);
        }
    }

    /// The values that lost partitions restart from.
    pub(super) fn restore_source(&self) -> Source {
        self.checkpoints.last().map_or(Source::Initial, |latest| Source::Checkpoint(latest.number))
    }

    /// Whether partitions depend on each other, so that a loss rewinds all of them.
    pub(super) fn is_synchronous(&self) -> bool {
        self.settings.mode == Mode::Sync
    }

    pub(super) fn next_generation(&self, replicas: &PartitionReplicas) -> PartitionGeneration {
        PartitionGeneration { number: replicas.generation.number + 1, source: self.restore_source() }
    }

    fn abort_checkpoint(&mut self, cause: Cause) {
        self.checkpoint_attempt = None;
        self.checkpoint_failure = Some(cause);
    }

    fn primaries(&self) -> BTreeSet<ServerId> {
        self.map.partitions.iter().filter_map(|replicas| replicas.primary.clone()).collect()
    }

    pub(super) fn count_without_primary(&self) -> usize {
        self.map.partitions.iter().filter(|replicas| replicas.primary.is_none()).count()
    }
}
