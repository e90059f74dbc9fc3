//! Pulls values from the primaries of all partitions that they are in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_wire::ps::v1 as wire;
use tokio::time::Instant;

use super::route::Route;
use super::{CachedSlice, Client, ClientError, Versions};
use crate::layout::{SliceId, TableId};
use crate::placement::{PARTITIONS, PartitionId};

/// Approximate size limit of the values in one reply.
const MAX_REPLY_BYTES: u64 = 16 << 20;

/// How long servers may reply that a step is not committed while no values arrive. Batches are leased when the step before
/// is committed, so after this time servers and data have probably been rewound.
const STEP_WAIT: Duration = Duration::from_secs(2);

/// The purpose of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullFor {
    /// Missing rows are created.
    Training,
    /// The same; the client remembers the versions of the values: see [`Client::versions`].
    TrainingWithVersions,
    /// The same as training, as soon as this many steps are committed.
    Step {
        committed: u64,
        /// Map epoch of the last rewind, from which the steps count.
        rewind_epoch: u64,
    },
    /// Missing rows are not created.
    Evaluation,
}

/// The result of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullOutcome {
    /// All values are there.
    Complete,
    /// Only of a pull for a step: it is not committed and probably void. The values must not be used.
    StepVoid,
}

/// Which values of a server are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PullSource {
    /// The model as it changes.
    Live(PullFor),
    /// The server's snapshot with this id.
    Snapshot(u64),
}

/// Rows of one table that are still missing, by their positions among the keys.
pub(super) struct MissingRows<'a> {
    table: TableId,
    dim: usize,
    keys: &'a [u64],
    partitions: Vec<PartitionId>,
    positions: Vec<u32>,
}

/// What one server is asked for.
#[derive(Default)]
pub(super) struct ServerPull {
    /// By index of the table in the request.
    rows: BTreeMap<usize, Vec<u32>>,
    slices: Vec<SliceId>,
}

impl Client {
    /// Pulls rows of tables, and updates all dense variables. `out` gets the rows of each table, in the order of the keys.
    /// The client retries until everything has arrived; only a step that is not committed ends a pull.
    pub async fn pull(
        &mut self,
        wanted: &[(TableId, &[u64])],
        why: PullFor,
        out: &mut Vec<Vec<f32>>,
    ) -> Result<PullOutcome, ClientError> {
        let mut missing = self.missing(wanted, out)?;
        self.versions.clear();
        let mut slices: Vec<SliceId> = self.layout.slices().collect();
        // Since when servers reply that the step is not committed, and no values arrive.
        let mut not_committed: Option<Instant> = None;
        for attempt in 0.. {
            let (began, missing_before) = (Instant::now(), count_missing(&missing, &slices));
            let mut is_not_committed = false;
            let route = self.route().await;
            let (asked, unserved) = self.sort(&route, &missing, &slices);
            let mut left = unserved;
            let answers = futures::future::join_all(asked.iter().map(|(server, asked)| {
                let op = self.request(&missing, asked, PullSource::Live(why));
                let this = &*self;
                let address = route.address(*server);
                async move { this.connection(address?).await.ok()?.request(op).await }
            }))
            .await;
            for ((_, asked), answer) in asked.iter().zip(answers) {
                match answer {
                    Some(wire::reply::Result::Pulled(pulled)) => {
                        let retry = self.store(pulled, &missing, asked, out)?;
                        left.merge(asked, &missing, |id| retry.contains(&id));
                        let is_left =
                            |slice: &SliceId| self.layout.partition_of(*slice).is_some_and(|id| retry.contains(&id));
                        left.slices.extend(asked.slices.iter().copied().filter(is_left));
                    }
                    Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why)),
                    Some(wire::reply::Result::Pushed(_) | wire::reply::Result::Lost(_)) => {
                        return Err(ClientError::InvalidReply("the reply to a pull is of another kind"));
                    }
                    answer @ (Some(wire::reply::Result::NotYet(_)) | None) => {
                        match NotReady::of(answer, why) {
                            NotReady::Void => return Ok(PullOutcome::StepVoid),
                            NotReady::StepNotCommitted => is_not_committed = true,
                            NotReady::Soon => {}
                        }
                        left.merge(asked, &missing, |_| true);
                        left.slices.extend(&asked.slices);
                    }
                }
            }
            if left.is_empty() {
                break;
            }
            for (table, missing) in missing.iter_mut().enumerate() {
                missing.positions = left.rows.remove(&table).unwrap_or_default();
            }
            slices = left.slices;
            if count_missing(&missing, &slices) < missing_before {
                not_committed = None;
            } else if is_not_committed {
                let since = *not_committed.get_or_insert(began);
                if since.elapsed() >= STEP_WAIT {
                    return Ok(PullOutcome::StepVoid);
                }
            }
            self.pause_before_retry(route.epoch, attempt).await?;
        }
        Ok(PullOutcome::Complete)
    }

    /// The values of a dense variable, as they were last pulled.
    pub fn variable(&self, variable: u32) -> Vec<f32> {
        let mut values = Vec::new();
        for slice in self.layout.slices_of(variable) {
            if let Some(known) = self.slices.get(&slice) {
                values.extend_from_slice(&known.values);
            }
        }
        values
    }

    /// The values of all dense variables, as they were last pulled.
    pub fn variables(&self) -> Vec<Vec<f32>> {
        (0..self.layout.spec().variables.len() as u32).map(|variable| self.variable(variable)).collect()
    }

    /// The versions of the values that were last pulled with versions.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(super) fn missing<'a>(
        &self,
        wanted: &[(TableId, &'a [u64])],
        out: &mut Vec<Vec<f32>>,
    ) -> Result<Vec<MissingRows<'a>>, ClientError> {
        out.resize_with(wanted.len(), Vec::new);
        let mut missing = Vec::with_capacity(wanted.len());
        for ((table, keys), out) in wanted.iter().zip(out.iter_mut()) {
            let (Some(dim), Some(name)) = (self.layout.dim(*table), self.layout.name_hash(*table)) else {
                return Err(ClientError::Refused(format!("the model has no table number {}", table.0)));
            };
            out.clear();
            out.resize(keys.len() * dim, 0.0);
            let partitions = keys.iter().map(|key| name.hash_key(*key).partition()).collect();
            missing.push(MissingRows {
                table: *table,
                dim,
                keys,
                partitions,
                positions: (0..keys.len() as u32).collect(),
            });
        }
        Ok(missing)
    }

    /// The request for each server, and what has no primary at present.
    pub(super) fn sort(
        &self,
        route: &Route,
        missing: &[MissingRows<'_>],
        slices: &[SliceId],
    ) -> (Vec<(usize, ServerPull)>, ServerPull) {
        let mut asked: BTreeMap<usize, ServerPull> = BTreeMap::new();
        let mut unserved = ServerPull::default();
        let mut servers = [None; PARTITIONS];
        PartitionId::all().for_each(|id| servers[id.index()] = route.server_of(id));
        for (table, rows) in missing.iter().enumerate() {
            // The last list is for partitions without a primary.
            let mut positions = vec![Vec::new(); route.server_count() + 1];
            for position in &rows.positions {
                let server = servers[rows.partitions[*position as usize].index()];
                positions[server.unwrap_or(route.server_count())].push(*position);
            }
            let lists = positions.into_iter().enumerate().filter(|(_, positions)| !positions.is_empty());
            for (server, positions) in lists {
                let of = if server < route.server_count() { asked.entry(server).or_default() } else { &mut unserved };
                of.rows.insert(table, positions);
            }
        }
        for slice in slices {
            let server = self.layout.partition_of(*slice).and_then(|id| servers[id.index()]);
            match server {
                Some(server) => asked.entry(server).or_default().slices.push(*slice),
                None => unserved.slices.push(*slice),
            }
        }
        let messages = asked.into_iter().flat_map(|(server, asked)| {
            self.split_request(asked, missing).into_iter().map(move |piece| (server, piece))
        });
        (messages.collect(), unserved)
    }

    /// Splits the request to a server so that no reply is too large.
    fn split_request(&self, asked: ServerPull, missing: &[MissingRows<'_>]) -> Vec<ServerPull> {
        let rows = asked.rows.iter().map(|(table, positions)| positions.len() * missing[*table].dim);
        let slices = asked.slices.iter().filter_map(|slice| self.layout.elements(*slice));
        if rows.sum::<usize>() as u64 + slices.map(|range| range.end - range.start).sum::<u64>() <= MAX_REPLY_BYTES / 4
        {
            return vec![asked];
        }
        let mut pieces = vec![ServerPull::default()];
        let mut room = MAX_REPLY_BYTES;
        let mut next = |bytes: u64, pieces: &mut Vec<ServerPull>| {
            if room < bytes {
                pieces.push(ServerPull::default());
                room = MAX_REPLY_BYTES;
            }
            room = room.saturating_sub(bytes);
            pieces.len() - 1
        };
        for (table, positions) in asked.rows {
            for position in positions {
                let piece = next(missing[table].dim as u64 * 4, &mut pieces);
                pieces[piece].rows.entry(table).or_default().push(position);
            }
        }
        for slice in asked.slices {
            let elements = self.layout.elements(slice).map_or(0, |range| range.end - range.start);
            let piece = next(elements * 4, &mut pieces);
            pieces[piece].slices.push(slice);
        }
        pieces
    }

    pub(super) fn request(
        &self,
        missing: &[MissingRows<'_>],
        asked: &ServerPull,
        source: PullSource,
    ) -> wire::request::Op {
        let rows = asked.rows.iter().map(|(table, positions)| {
            let of = &missing[*table];
            wire::Keys { table: of.table.0, keys: keys_at(of.keys, positions) }
        });
        let slices = asked.slices.iter().map(|slice| wire::KnownSlice {
            slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
            known: self
                .slices
                .get(slice)
                .map(|known| wire::SliceVersion { generation: known.generation, version: known.version }),
        });
        wire::request::Op::Pull(wire::Pull {
            model: self.layout.fingerprint().0,
            rows: rows.collect(),
            slices: slices.collect(),
            peek: source == PullSource::Live(PullFor::Evaluation),
            at_step: match source {
                PullSource::Live(PullFor::Step { committed, rewind_epoch }) => {
                    Some(wire::AtStep { steps: committed, rewind_epoch })
                }
                PullSource::Live(_) | PullSource::Snapshot(_) => None,
            },
            snapshot: match source {
                PullSource::Snapshot(number) => Some(number),
                PullSource::Live(_) => None,
            },
            versions: source == PullSource::Live(PullFor::TrainingWithVersions),
        })
    }

    /// Stores the values of a reply; returns the partitions to retry.
    pub(super) fn store(
        &mut self,
        pulled: wire::Pulled,
        missing: &[MissingRows<'_>],
        asked: &ServerPull,
        out: &mut [Vec<f32>],
    ) -> Result<BTreeSet<PartitionId>, ClientError> {
        let retry = pulled.retry_partitions.iter().filter_map(|number| PartitionId::of_number(*number));
        let retry: BTreeSet<PartitionId> = retry.collect();
        if pulled.rows.len() != asked.rows.len() {
            return Err(ClientError::InvalidReply("the number of tables differs from the request"));
        }
        for ((table, positions), bytes) in asked.rows.iter().zip(&pulled.rows) {
            let of = &missing[*table];
            if bytes.len() != positions.len() * of.dim * 4 {
                return Err(ClientError::InvalidReply("the number of rows differs from the request"));
            }
            let rows = bytes.chunks_exact(of.dim * 4);
            for (position, row) in positions.iter().zip(rows) {
                let at = *position as usize;
                if !retry.contains(&of.partitions[at]) {
                    floats_into(row, &mut out[*table][at * of.dim..][..of.dim]);
                }
            }
        }
        self.versions.record(pulled.versions);
        for slice in pulled.slices {
            let (Some(at), Some(version)) = (slice.slice, slice.version) else {
                return Err(ClientError::InvalidReply("a slice without an id"));
            };
            let id = SliceId { variable: at.variable, index: at.index };
            let elements = self.layout.elements(id).map_or(0, |range| range.end - range.start);
            if slice.values.len() as u64 != elements * 4 {
                return Err(ClientError::InvalidReply("a slice has the wrong size"));
            }
            let mut values = vec![0.0; elements as usize];
            floats_into(&slice.values, &mut values);
            let (generation, version) = (version.generation, version.version);
            self.slices.insert(id, CachedSlice { generation, version, values: Arc::from(values) });
        }
        Ok(retry)
    }
}

/// Why a server has not replied with values.
enum NotReady {
    /// This server or another one will be ready soon.
    Soon,
    StepNotCommitted,
    /// A later rewind has voided the step.
    Void,
}

impl NotReady {
    fn of(answer: Option<wire::reply::Result>, why: PullFor) -> Self {
        let Some(wire::reply::Result::NotYet(wire::NotYet { why: Some(reason) })) = answer else { return Self::Soon };
        match (reason, why) {
            (wire::not_yet::Why::StepNotCommitted(_), _) => Self::StepNotCommitted,
            (wire::not_yet::Why::RewindEpoch(known), PullFor::Step { rewind_epoch, .. }) if known > rewind_epoch => {
                Self::Void
            }
            (wire::not_yet::Why::RewindEpoch(_) | wire::not_yet::Why::ModelUnknown(_), _) => Self::Soon,
        }
    }
}

impl ServerPull {
    fn is_empty(&self) -> bool {
        self.rows.values().all(Vec::is_empty) && self.slices.is_empty()
    }

    /// Adds the rows of partitions to retry.
    fn merge(&mut self, asked: &ServerPull, missing: &[MissingRows<'_>], is_left: impl Fn(PartitionId) -> bool) {
        for (table, positions) in &asked.rows {
            let partitions = &missing[*table].partitions;
            let left = positions.iter().filter(|position| is_left(partitions[**position as usize]));
            self.rows.entry(*table).or_default().extend(left);
        }
    }
}

/// Number of missing rows and slices.
fn count_missing(missing: &[MissingRows<'_>], slices: &[SliceId]) -> usize {
    missing.iter().map(|rows| rows.positions.len()).sum::<usize>() + slices.len()
}

pub(super) fn keys_at(keys: &[u64], positions: &[u32]) -> Bytes {
    let mut bytes = vec![0; positions.len() * 8];
    let chunks = bytes.as_chunks_mut().0;
    chunks.iter_mut().zip(positions).for_each(|(chunk, at)| *chunk = keys[*at as usize].to_le_bytes());
    bytes.into()
}

fn floats_into(bytes: &[u8], out: &mut [f32]) {
    let (chunks, _) = bytes.as_chunks::<4>();
    out.iter_mut().zip(chunks).for_each(|(out, chunk)| *out = f32::from_le_bytes(*chunk));
}
