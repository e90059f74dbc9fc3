//! What is on its way to a server: copies of which not all is here, and changes whose turn has not come.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flexor_model::PsEpoch;
use flexor_wire::ps::v1 as wire;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

use crate::partition::{Arriving, Partition};
use crate::placement::PartitionId;
use crate::server::decode::{BasedOn, DecodedPush};
use crate::server::numbers::{CopyNumber, Turn};

/// To whoever sends copies.
pub(super) type Answers = mpsc::UnboundedSender<Result<wire::FromCopy, Status>>;

/// How many bytes of changes may wait for copies that are not whole. Training that changes more than this while a copy is
/// on its way is too fast for it: the copy is given up, and the master has it begun again.
pub(super) const MAX_BACKLOG: usize = 1 << 30;

/// What is on its way to this server.
pub(in crate::server) struct Copies {
    of_partitions: Vec<Mutex<Incoming>>,
    /// How many bytes the changes have that are here and not yet carried out.
    pub(super) backlog: Arc<AtomicUsize>,
}

impl Default for Copies {
    fn default() -> Self {
        Self { of_partitions: PartitionId::all().map(|_| Mutex::default()).collect(), backlog: Arc::default() }
    }
}

impl Copies {
    pub(in crate::server) fn of(&self, id: PartitionId) -> &Mutex<Incoming> {
        &self.of_partitions[id.index()]
    }

    pub(super) fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > MAX_BACKLOG
    }
}

/// The room that a change takes as long as it is here.
pub(super) struct Room {
    pub(super) backlog: Arc<AtomicUsize>,
    pub(super) bytes: usize,
}

impl Room {
    pub(super) fn take(backlog: &Arc<AtomicUsize>, bytes: usize) -> Self {
        backlog.fetch_add(bytes, Ordering::Relaxed);
        Self { backlog: Arc::clone(backlog), bytes }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.backlog.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What is here of a copy, and what waits.
#[derive(Default)]
pub(in crate::server) struct Incoming {
    /// The copy that is on its way: the latest that anything has come of.
    pub(super) coming: Option<Coming>,
    /// The copy that was put in place last.
    pub(super) whole: Option<Whole>,
    /// Copies up to this one, but for the one that is in place, are not wanted any more.
    pub(super) dropped: CopyNumber,
    /// Changes whose turn has not come.
    pub(super) waiting: BTreeMap<Turn, Waiting>,
}

/// A copy that is not in place yet.
pub(super) struct Coming {
    pub(super) copy: CopyNumber,
    /// By which map its sender owns the partition.
    pub(super) map: PsEpoch,
    pub(super) come: Come,
}

/// What has come of a copy.
pub(super) enum Come {
    /// Some of it.
    Some(Arriving),
    /// Everything, while this server has not heard that its sender is the owner.
    All {
        partition: Partition,
        /// The last change that is in it.
        turn: Turn,
        answers: Answers,
    },
}

/// A copy that was put in place.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    pub(super) copy: CopyNumber,
    /// By which map its sender owned the partition.
    pub(super) map: PsEpoch,
}

/// A change whose turn has not come.
pub(super) struct Waiting {
    pub(super) message: Arc<Message>,
    /// Its sender waits for it. Nobody waits for what is for a copy that is not whole: the copy is whole with it.
    pub(super) is_awaited: bool,
    /// The copy that it is for, where it is not for one that had everything from the start.
    pub(super) copy: Option<CopyNumber>,
    /// By which map its sender owns the partition.
    pub(super) map: PsEpoch,
}

impl fmt::Display for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole.map(|whole| whole.copy);
        write!(f, "copy {whole:?} is here, up to {:?} unwanted", self.dropped)?;
        if let Some(Coming { copy, map, come }) = &self.coming {
            let how_much = match come {
                Come::Some(_) => "some",
                Come::All { .. } => "all",
            };
            write!(f, ", {how_much} of {copy:?} has come by map {map}")?;
        }
        for (turn, Waiting { is_awaited, copy, map, .. }) in &self.waiting {
            let awaited = if *is_awaited { "awaited" } else { "not awaited" };
            write!(f, ", {turn} for {copy:?} waits by map {map} ({awaited})")?;
        }
        Ok(())
    }
}

impl Incoming {
    /// Whether nothing is on its way.
    pub(in crate::server) fn is_quiet(&self) -> bool {
        self.coming.is_none() && self.waiting.is_empty()
    }

    /// Whether a change for this copy is one of what is here.
    pub(super) fn has(&self, copy: Option<CopyNumber>) -> bool {
        copy.is_none() || copy == self.whole.map(|whole| whole.copy)
    }

    /// What has come of a copy so far, in whose place `begin` is where that is nothing; nothing of one that is not wanted.
    /// The master has one copy made at a time: with the first piece of one those before it are given up.
    pub(super) fn go_on(&mut self, copy: CopyNumber, begin: impl FnOnce() -> Coming) -> Option<Coming> {
        if copy <= self.dropped || self.coming.as_ref().is_some_and(|coming| coming.copy > copy) {
            return None;
        }
        match self.coming.take() {
            Some(coming) if coming.copy == copy => Some(coming),
            before => {
                if let Some(before) = before {
                    self.drop_copy(before.copy);
                }
                Some(begin())
            }
        }
    }

    /// Forgets a copy: nothing more of it is taken in.
    pub(super) fn drop_copy(&mut self, copy: CopyNumber) {
        self.coming.take_if(|coming| coming.copy == copy);
        self.dropped = self.dropped.max(copy);
        self.give_up(|waiting| waiting.copy == Some(copy));
    }

    /// Gives up a copy, and says so.
    pub(super) fn refuse(&mut self, id: PartitionId, copy: CopyNumber, why: &str) -> wire::from_copy::Message {
        self.drop_copy(copy);
        let (partition, detail) = (id.number(), why.to_owned());
        wire::from_copy::Message::Refused(wire::CopyRefused { partition, detail, copy: copy.0 })
    }

    /// A change waits for its turn. Two owners, one after the other, may send changes of the same number: that of the
    /// later one counts.
    pub(super) fn wait(&mut self, id: PartitionId, turn: Turn, waiting: Waiting) {
        let of_before = match self.waiting.get(&turn) {
            Some(known) if known.map > waiting.map => Some(waiting),
            Some(_) | None => self.waiting.insert(turn, waiting),
        };
        if let Some(of_before) = of_before {
            of_before.turned(id);
        }
    }

    /// Gives up what waits and is not to stay: it was done, as far as its sender need know.
    pub(super) fn give_up(&mut self, is_over: impl Fn(&Waiting) -> bool) {
        self.waiting.retain(|_, waiting| {
            let is_over = is_over(waiting);
            if is_over {
                waiting.done();
            }
            !is_over
        });
    }
}

impl Waiting {
    pub(super) fn done(&self) {
        if self.is_awaited {
            self.message.part_done();
        }
    }

    pub(super) fn turned(&self, partition: PartitionId) {
        if self.is_awaited {
            self.message.part_turned(partition);
        }
    }
}

/// A message whose parts are carried out as their turns come.
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) push: DecodedPush,
    pub(super) in_step: bool,
    pub(super) based_on: BasedOn,
    pub(super) left: AtomicUsize,
    /// Partitions that the sender does not own any more.
    pub(super) without: Mutex<Vec<u32>>,
    pub(super) answers: Answers,
    pub(super) _room: Room,
}

impl Message {
    /// One part of it is done; when all are, the owner hears so.
    pub(super) fn part_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let (number, without) = (self.id, std::mem::take(&mut *self.without.lock()));
        say(
            &self.answers,
            match without.is_empty() {
                true => wire::from_copy::Message::Applied(number),
                false => wire::from_copy::Message::InPart(wire::AppliedInPart { number, without }),
            },
        );
    }

    /// One part of it is of a partition that its sender does not own any more: it must not believe that it was done.
    pub(super) fn part_turned(&self, partition: PartitionId) {
        self.without.lock().push(partition.number());
        self.part_done();
    }
}

pub(super) fn say(answers: &Answers, message: wire::from_copy::Message) {
    // Nobody listens any more only when the stream has ended.
    let _ = answers.send(Ok(wire::FromCopy { message: Some(message) }));
}
