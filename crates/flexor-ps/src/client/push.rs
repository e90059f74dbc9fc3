//! Pushes the gradients of a batch to the primaries of all partitions that they concern.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::pushed_part::Outcome;

use super::pull::keys_at;
use super::route::{Route, ServerAddress};
use super::{Client, ClientError, Versions};
use crate::batch::BatchId;
use crate::layout::{SliceId, TableId};
use crate::little_endian::put_floats;
use crate::placement::{PARTITIONS, PartitionId, SLICE_ELEMENTS};
use crate::push::NonFinite;

/// Approximate size limit of a message. The part of one partition is never split.
const MAX_PUSH_BYTES: usize = 16 << 20;
/// How long the client waits for the reply of a former primary after a map has replaced it.
const REPLY_GRACE: Duration = Duration::from_secs(1);

/// The gradients of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Gradients<'a> {
    pub batch: BatchId,
    /// 0 selects the learning rate of the model.
    pub learning_rate: f32,
    /// In synchronous training: map epoch of the last rewind. Servers buffer the gradients for the step of the batch. None:
    /// each push is applied on arrival.
    pub rewind_epoch: Option<u64>,
    pub non_finite: NonFinite,
    /// Table, keys, and one row of gradients per key.
    pub rows: &'a [(TableId, &'a [u64], &'a [f32])],
    /// Index of a dense variable in the model, and one gradient per element.
    pub variables: &'a [(u32, &'a [f32])],
}

/// The result of a push, counted in parts: one per partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// Applied by this push.
    pub applied: u32,
    /// Applied by an earlier push of the same batch, from any client.
    pub already_applied: u32,
    /// Another client has acknowledged the batch.
    pub batch_closed: u32,
}

/// Gradients with the partition of each row and slice.
struct SortedGradients<'a> {
    rows: Vec<SortedRows<'a>>,
    slices: Vec<(SliceId, PartitionId, &'a [f32])>,
}

struct SortedRows<'a> {
    table: TableId,
    keys: &'a [u64],
    gradients: &'a [f32],
    dim: usize,
    partitions_of_keys: Vec<PartitionId>,
}

impl Client {
    /// Pushes gradients; returns when every part was applied, once.
    pub async fn push(&mut self, gradients: &Gradients<'_>) -> Result<PushOutcome, ClientError> {
        self.push_based_on(gradients, &Versions::default()).await
    }

    /// The same, for gradients that were computed from values of these versions. A partition divides the learning rate by
    /// the number of updates since.
    pub async fn push_based_on(
        &mut self,
        gradients: &Gradients<'_>,
        versions: &Versions,
    ) -> Result<PushOutcome, ClientError> {
        let sorted = self.sorted(gradients)?;
        let mut left = sorted.partitions();
        let mut outcome = PushOutcome::default();
        for attempt in 0.. {
            let route = self.route().await;
            let mut servers: BTreeMap<usize, BTreeSet<PartitionId>> = BTreeMap::new();
            for id in &left {
                if let Some(server) = route.server_of(*id) {
                    servers.entry(server).or_default().insert(*id);
                }
            }
            let messages: Vec<(usize, BTreeSet<PartitionId>)> = servers
                .into_iter()
                .flat_map(|(server, parts)| sorted.split(parts).into_iter().map(move |piece| (server, piece)))
                .collect();
            let answers = futures::future::join_all(messages.iter().map(|(server, parts)| {
                let based_on = versions.of(parts).collect();
                let op = wire::request::Op::Push(wire::Push { based_on, ..self.part_of(gradients, &sorted, parts) });
                let this = &*self;
                let address = route.address(*server);
                async move {
                    let connection = this.connection(address?).await.ok()?;
                    tokio::select! {
                        answer = connection.request(op) => answer,
                        () = this.wait_for_new_primary(address?, parts) => None,
                    }
                }
            }))
            .await;
            for ((_, parts), answer) in messages.iter().zip(answers) {
                match answer {
                    Some(wire::reply::Result::Pushed(pushed)) => {
                        let mut unanswered = parts.clone();
                        for part in pushed.parts {
                            let Some(id) = PartitionId::of_number(part.partition) else {
                                return Err(ClientError::InvalidReply("no such partition"));
                            };
                            if part.outcome() == Outcome::Unspecified {
                                return Err(ClientError::InvalidReply("a part of a push has an unknown outcome"));
                            }
                            if matches!(part.outcome(), Outcome::Applied | Outcome::AlreadyApplied) {
                                match gradients.rewind_epoch {
                                    None => self.acknowledged.record(id, part.generation, part.version),
                                    Some(_) => self.acknowledged.record_steps(id, part.generation, part.version),
                                }
                            }
                            unanswered.remove(&id);
                            outcome.count(part.outcome(), left.remove(&id), || left.insert(id));
                        }
                        if !unanswered.is_empty() {
                            return Err(ClientError::InvalidReply("a part of a push has no outcome"));
                        }
                    }
                    Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why)),
                    Some(wire::reply::Result::Pulled(_) | wire::reply::Result::Lost(_)) => {
                        return Err(ClientError::InvalidReply("the reply to a push is of another kind"));
                    }
                    // The outcome is unknown. A part that was applied is not applied again.
                    Some(wire::reply::Result::NotYet(_)) | None => {}
                }
            }
            if left.is_empty() {
                return Ok(outcome);
            }
            self.pause_before_retry(route.epoch, attempt).await?;
        }
        Ok(outcome)
    }

    /// Waits until a map appoints another primary for some of the parts, plus the time that a reply may need to arrive. A
    /// primary that is cut off from the master acknowledges no client.
    async fn wait_for_new_primary(&self, server: &ServerAddress, parts: &BTreeSet<PartitionId>) {
        let has_new_primary = |route: &Route| {
            let mut primaries = parts.iter().filter_map(|id| route.primary_of(*id));
            primaries.any(|primary| primary.server != server.server)
        };
        let mut routes = self.route.clone();
        if routes.wait_for(|route| has_new_primary(route)).await.is_err() {
            // The watcher lives as long as the client.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(REPLY_GRACE).await;
    }

    fn sorted<'a>(&self, gradients: &Gradients<'a>) -> Result<SortedGradients<'a>, ClientError> {
        let mut rows = Vec::with_capacity(gradients.rows.len());
        for (table, keys, values) in gradients.rows {
            let (Some(dim), Some(name)) = (self.layout.dim(*table), self.layout.name_hash(*table)) else {
                return Err(ClientError::Refused(format!("the model has no table number {}", table.0)));
            };
            if keys.len() * dim != values.len() {
                return Err(ClientError::Refused(format!(
                    "{} keys need {} values, not {}",
                    keys.len(),
                    keys.len() * dim,
                    values.len()
                )));
            }
            let partitions_of_keys = keys.iter().map(|key| name.hash_key(*key).partition()).collect();
            rows.push(SortedRows { table: *table, keys, gradients: values, dim, partitions_of_keys });
        }
        let mut slices = Vec::new();
        for (variable, values) in gradients.variables {
            let Some(of) = self.layout.spec().variables.get(*variable as usize) else {
                return Err(ClientError::Refused(format!("the model has no variable number {variable}")));
            };
            if of.elements() != values.len() as u64 {
                let (name, elements, has) = (&of.name, of.elements(), values.len());
                let why = format!("variable '{name}' has {elements} elements, and its gradient {has}");
                return Err(ClientError::Refused(why));
            }
            for (slice, values) in self.layout.slices_of(*variable).zip(values.chunks(SLICE_ELEMENTS as usize)) {
                let place =
                    self.layout.partition_of(slice).ok_or(ClientError::InvalidReply("a slice without a partition"))?;
                slices.push((slice, place, values));
            }
        }
        Ok(SortedGradients { rows, slices })
    }

    /// The message for one server: the gradients of these partitions.
    fn part_of(
        &self,
        gradients: &Gradients<'_>,
        sorted: &SortedGradients<'_>,
        parts: &BTreeSet<PartitionId>,
    ) -> wire::Push {
        let mut is_included = [false; PARTITIONS];
        parts.iter().for_each(|id| is_included[id.index()] = true);
        let rows = sorted.rows.iter().filter_map(|rows| {
            let positions: Vec<u32> = (0..)
                .zip(&rows.partitions_of_keys)
                .filter(|(_, id)| is_included[id.index()])
                .map(|(at, _)| at)
                .collect();
            let values = |at: &u32| &rows.gradients[*at as usize * rows.dim..][..rows.dim];
            (!positions.is_empty()).then(|| wire::RowGradients {
                table: rows.table.0,
                keys: keys_at(rows.keys, &positions),
                gradients: floats(positions.len() * rows.dim, positions.iter().map(values)),
            })
        });
        let slices = sorted.slices.iter().filter(|(_, id, _)| is_included[id.index()]);
        let slices = slices.map(|(slice, _, values)| wire::SliceGradient {
            slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
            offset: 0,
            gradient: floats(values.len(), std::iter::once(*values)),
        });
        let BatchId { dataset, epoch, first, len } = gradients.batch;
        wire::Push {
            model: self.layout.fingerprint().0,
            batch: Some(wire::Batch { dataset, epoch, first, records: len }),
            learning_rate: gradients.learning_rate,
            rows: rows.collect(),
            slices: slices.collect(),
            rewind_epoch: gradients.rewind_epoch,
            skip_non_finite: gradients.non_finite == NonFinite::Skip,
            based_on: Vec::new(),
        }
    }
}

impl SortedGradients<'_> {
    /// Splits the parts of a server into messages below the size limit. The part of a partition is never split.
    fn split(&self, parts: BTreeSet<PartitionId>) -> Vec<BTreeSet<PartitionId>> {
        let mut bytes = [0_usize; PARTITIONS];
        for rows in &self.rows {
            rows.partitions_of_keys.iter().for_each(|id| bytes[id.index()] += rows.dim * 4 + 8);
        }
        self.slices.iter().for_each(|(_, id, values)| bytes[id.index()] += values.len() * 4);
        let mut pieces = vec![BTreeSet::new()];
        let mut room = MAX_PUSH_BYTES;
        for id in parts {
            let needs = bytes[id.index()];
            if room < needs && pieces.last().is_some_and(|piece| !piece.is_empty()) {
                pieces.push(BTreeSet::new());
                room = MAX_PUSH_BYTES;
            }
            room = room.saturating_sub(needs);
            if let Some(piece) = pieces.last_mut() {
                piece.insert(id);
            }
        }
        pieces
    }

    fn partitions(&self) -> BTreeSet<PartitionId> {
        let mut has = [false; PARTITIONS];
        self.rows.iter().flat_map(|rows| &rows.partitions_of_keys).for_each(|id| has[id.index()] = true);
        self.slices.iter().for_each(|(_, id, _)| has[id.index()] = true);
        PartitionId::all().filter(|id| has[id.index()]).collect()
    }
}

impl PushOutcome {
    /// Counts a part that was awaited, or puts it back for a retry.
    fn count(&mut self, outcome: Outcome, awaited: bool, put_back: impl FnOnce() -> bool) {
        match outcome {
            _ if !awaited => {}
            Outcome::Applied => self.applied += 1,
            Outcome::AlreadyApplied => self.already_applied += 1,
            Outcome::BatchClosed => self.batch_closed += 1,
            // An unspecified outcome is refused before.
            Outcome::Retry | Outcome::Unspecified => {
                put_back();
            }
        }
    }
}

fn floats<'a>(count: usize, rows: impl Iterator<Item = &'a [f32]>) -> Bytes {
    let mut bytes = Vec::with_capacity(count * 4);
    rows.for_each(|row| put_floats(&mut bytes, row));
    bytes.into()
}
