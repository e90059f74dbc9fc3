//! Serves clients: pulls read values, pushes apply gradients.
//!
//! A push is acknowledged when every in-sync backup has it. The gRPC service of the server is here too; replication streams
//! go to [`super::backup`], snapshots to [`super::snapshots`].

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use flexor_model::MapEpoch;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_server::ParameterServer;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::decode::{BasedOn, DecodeError, DecodedKeys, DecodedPush, slice_of};
use super::replica_state::{ReplicaRole, SyncState};
use super::replication_link::{ReplicationLink, WaitFor};
use super::sequence::PartitionGeneration;
use super::{Server, backup, snapshots};
use crate::dial::MAX_MESSAGE;
use crate::hosted::{DenseAnswer, HostedPartitions, PullError, ReadMode, SliceRequest};
use crate::little_endian::floats_as_bytes;
use crate::partition::{PartOutcome, PartitionError};
use crate::placement::PartitionId;
use crate::push::AnswerSize;
use crate::snapshot::SnapshotId;

/// Pushes of a client that may wait for backups; beyond that, no further request is read.
const MAX_WAITING: usize = 64;

pub(super) struct PsService {
    server: Server,
}

impl PsService {
    pub(super) fn new(server: Server) -> Self {
        Self { server }
    }
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ParameterServer for PsService {
    type WorkStream = Messages<wire::Reply>;
    type ReplicateStream = Messages<wire::FromBackup>;
    type SnapshotStream = Messages<wire::SnapshotOpened>;

    async fn work(&self, request: Request<Streaming<wire::Request>>) -> Result<Response<Self::WorkStream>, Status> {
        self.server.0.me.call_target().check(request.metadata())?;
        let client = ClientStream {
            server: self.server.clone(),
            requests: request.into_inner(),
            waiting: FuturesUnordered::new(),
        };
        let replies = futures::stream::unfold(client, async |mut client| {
            let reply = client.next().await?;
            Some((Ok(reply), client))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn replicate(
        &self,
        request: Request<Streaming<wire::FromPrimary>>,
    ) -> Result<Response<Self::ReplicateStream>, Status> {
        self.server.0.me.call_target().check(request.metadata())?;
        Ok(Response::new(Box::pin(backup::receive(self.server.clone(), request.into_inner()))))
    }

    async fn snapshot(&self, request: Request<wire::OpenSnapshot>) -> Result<Response<Self::SnapshotStream>, Status> {
        self.server.0.me.call_target().check(request.metadata())?;
        Ok(Response::new(Box::pin(self.server.open_snapshot(request.get_ref())?)))
    }
}

/// The requests of one client, and the replies that are due.
struct ClientStream {
    server: Server,
    requests: Streaming<wire::Request>,
    /// Replies that wait for backups, or for a step.
    waiting: FuturesUnordered<BoxFuture<'static, wire::Reply>>,
}

impl ClientStream {
    async fn next(&mut self) -> Option<wire::Reply> {
        loop {
            tokio::select! {
                request = self.requests.next(), if self.waiting.len() < MAX_WAITING => match request {
                    Some(Ok(request)) => match self.server.answer(request) {
                        Answer::Now(reply) => return Some(reply),
                        Answer::Later(reply) => self.waiting.push(reply),
                    },
                    Some(Err(_)) | None => return None,
                },
                Some(reply) = self.waiting.next(), if !self.waiting.is_empty() => return Some(reply),
            }
        }
    }
}

enum Answer {
    Now(wire::Reply),
    Later(BoxFuture<'static, wire::Reply>),
}

impl Server {
    fn answer(&self, request: wire::Request) -> Answer {
        let id = request.id;
        let now = |result| Answer::Now(wire::Reply { id, result: Some(result) });
        let not_yet = |why| wire::reply::Result::NotYet(wire::NotYet { why: Some(why) });
        let Some(hosted) = self.0.hosted.get() else { return now(not_yet(wire::not_yet::Why::ModelUnknown(true))) };
        let refused = |error: &dyn std::fmt::Display| wire::reply::Result::Refused(error.to_string());
        match request.op {
            Some(wire::request::Op::Pull(pull)) => match (snapshots::other_model(hosted, pull.model), pull.at_step) {
                (Some(wrong), _) => now(refused(&wrong)),
                (None, Some(step)) => {
                    let (server, hosted) = (self.clone(), Arc::clone(hosted));
                    let reply = async move {
                        let read = async {
                            server.wait_for_step(step).await?;
                            let pulled = server.pulled(&hosted, &pull);
                            // A rewind may have started while the values were read.
                            server.check_rewind_epoch(step)?;
                            Ok(pulled)
                        };
                        wire::Reply { id, result: Some(read.await.unwrap_or_else(not_yet)) }
                    };
                    Answer::Later(reply.boxed())
                }
                (None, None) => now(self.pulled(hosted, &pull)),
            },
            Some(wire::request::Op::Push(push)) => match snapshots::other_model(hosted, push.model) {
                Some(wrong) => now(refused(&wrong)),
                None => match self.push(hosted, push) {
                    Err(error) => now(refused(&error)),
                    Ok(applied) if applied.waits.is_empty() => now(wire::reply::Result::Pushed(applied.reply())),
                    Ok(applied) => {
                        let server = self.clone();
                        let reply = async move {
                            let pushed = applied.wait_for_backups(&server).await;
                            wire::Reply { id, result: Some(wire::reply::Result::Pushed(pushed)) }
                        };
                        Answer::Later(reply.boxed())
                    }
                },
            },
            None => now(refused(&"neither a pull nor a push")),
        }
    }

    /// The reply to a request.
    #[cfg(test)]
    pub(super) async fn answered(&self, request: wire::Request) -> wire::Reply {
        match self.answer(request) {
            Answer::Now(reply) => reply,
            Answer::Later(reply) => reply.await,
        }
    }

    fn pulled(&self, hosted: &HostedPartitions, pull: &wire::Pull) -> wire::reply::Result {
        match self.pull(hosted, pull) {
            Ok(pulled) => wire::reply::Result::Pulled(pulled),
            Err(PullRefused::Pull(PullError::Snapshot(why))) => wire::reply::Result::Lost(snapshots::lost(why)),
            Err(error) => wire::reply::Result::Refused(error.to_string()),
        }
    }

    fn pull(&self, hosted: &HostedPartitions, pull: &wire::Pull) -> Result<wire::Pulled, PullRefused> {
        let layout = hosted.layout();
        let reading = match (pull.snapshot, pull.at_step) {
            (Some(snapshot), _) => ReadMode::Snapshot(SnapshotId(snapshot)),
            (None, _) if pull.peek => ReadMode::Peek,
            (None, Some(step)) => ReadMode::Step(step.steps),
            (None, None) => ReadMode::Train,
        };
        // Decode everything first: a pull creates rows, and a refused one must create none.
        let of_rows = pull.rows.iter().map(|rows| DecodedKeys::of(&layout, rows.table, &rows.keys));
        let of_rows = of_rows.collect::<Result<Vec<_>, DecodeError>>()?;
        let of_slices = pull.slices.iter().map(|requested| {
            let slice = slice_of(requested.slice.as_ref().ok_or(DecodeError::NoSlice)?);
            let id = layout.partition_of(slice).ok_or(crate::push::BadRequest::UnknownSlice(slice))?;
            Ok((slice, id, requested.known))
        });
        let of_slices = of_slices.collect::<Result<Vec<_>, DecodeError>>()?;
        let size = AnswerSize::of(&layout, of_rows.iter().map(DecodedKeys::row_keys), of_slices.iter().map(|of| of.0));
        size.check(MAX_MESSAGE).map_err(DecodeError::Bad)?;
        let mut pulled = wire::Pulled::default();
        let mut retry = BTreeSet::new();
        let mut versions = Versions::default();
        for keys in &of_rows {
            let (row_keys, mut values) = (keys.row_keys(), Vec::new());
            retry.extend(
                row_keys.buckets.partitions().filter(|id| self.0.replicas.lock(*id).role != ReplicaRole::Primary),
            );
            if pull.versions {
                // Before the values are read: they are of this version or later.
                row_keys.buckets.partitions().for_each(|id| versions.add(self, hosted, id));
            }
            let missing = hosted.pull(row_keys, reading, &mut values)?;
            retry.extend(missing.iter().map(PartitionError::partition));
            pulled.rows.push(floats_as_bytes(values));
        }
        let mut known = Vec::with_capacity(of_slices.len());
        let mut generations = BTreeMap::new();
        for (slice, id, seen) in of_slices {
            let replica = self.0.replicas.lock(id);
            if replica.role != ReplicaRole::Primary {
                retry.extend([id]);
                continue;
            }
            generations.insert(slice, replica.last_applied.generation);
            if pull.versions {
                versions.add_of(hosted, id, replica.last_applied.generation);
            }
            let is_same = seen.filter(|seen| PartitionGeneration(seen.generation) == replica.last_applied.generation);
            known.push(SliceRequest { slice, known: is_same.map(|known| known.version) });
        }
        hosted.pull_dense(&known, reading, |slice, answer| match answer {
            DenseAnswer::NotModified => {}
            DenseAnswer::Modified { version, weights } => pulled.slices.push(wire::SliceValues {
                slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
                version: Some(wire::SliceVersion {
                    generation: generations.get(&slice).map_or(0, |generation| generation.0),
                    version,
                }),
                values: floats_as_bytes(weights.to_vec()),
            }),
            DenseAnswer::NotHere => retry.extend(layout.partition_of(slice)),
        })?;
        hosted.count_pull(of_rows.iter().map(|keys| keys.row_keys().keys.len()).sum());
        pulled.retry_partitions = retry.into_iter().map(PartitionId::number).collect();
        pulled.versions = versions.0.into_values().collect();
        Ok(pulled)
    }

    /// Applies a push to the partitions that this server is primary of, and replicates it.
    fn push(&self, hosted: &HostedPartitions, push: wire::Push) -> Result<AppliedPush, DecodeError> {
        let layout = hosted.layout();
        let decoded = DecodedPush::of(&layout, &push)?;
        let mut applied = AppliedPush::default();
        let mut sends: Vec<(Arc<ReplicationLink>, u64, Vec<wire::ReplicatedPart>)> = Vec::new();
        let mut refusal = None;
        decoded.with(|view| -> Result<(), DecodeError> {
            let checked = hosted.check(view)?;
            let based_on = BasedOn::of(&push);
            hosted.count(&checked);
            for id in checked.partitions() {
                let mut replica = self.0.replicas.lock(id);
                // Under the lock of the replica, so that both belong to the same rewind.
                let rewind_epoch = self.rewind_epoch();
                let lacks_rewind =
                    push.rewind_epoch.is_some_and(|theirs| rewind_epoch.is_none_or(|known| theirs > known));
                if !replica.is_open() || lacks_rewind {
                    applied.retry.push(id);
                    continue;
                }
                if push.rewind_epoch.is_some() && push.rewind_epoch < rewind_epoch {
                    // The values that it was computed from are gone; its batch is computed again.
                    let (outcome, primary_since) = (wire::pushed_part::Outcome::BatchClosed, replica.primary_since);
                    let generation = replica.last_applied.generation;
                    applied.parts.push(AppliedPart { id, outcome, version: 0, generation, primary_since });
                    continue;
                }
                let based_on = based_on.version(id, replica.last_applied.generation);
                let pushed = hosted
                    .with(id, |partition| partition.apply_or_buffer(&checked, push.rewind_epoch.is_some(), based_on))
                    .flatten();
                let (outcome, version) = match pushed {
                    Ok(PartOutcome::Applied { version }) => {
                        replica.last_applied = replica.last_applied.next();
                        self.cancel_flooded_syncs(id, &mut replica);
                        for target in &replica.targets {
                            let part = wire::ReplicatedPart {
                                partition: id.number(),
                                generation: replica.last_applied.generation.0,
                                sequence: replica.last_applied.number,
                                map_epoch: replica.map_epoch.0,
                                sync_id: target.sync_id.map(|sync_id| sync_id.0),
                            };
                            // The message id is reserved under the lock: a wait for everything applied so far then
                            // includes this message.
                            match sends.iter_mut().find(|(link, _, _)| Arc::ptr_eq(link, &target.link)) {
                                Some((_, _, parts)) => parts.push(part),
                                None => sends.push((target.link.clone(), target.link.reserve(), vec![part])),
                            }
                        }
                        (wire::pushed_part::Outcome::Applied, version)
                    }
                    Ok(PartOutcome::AlreadyApplied { version }) => {
                        (wire::pushed_part::Outcome::AlreadyApplied, version.unwrap_or(0))
                    }
                    Ok(PartOutcome::Closed) => (wire::pushed_part::Outcome::BatchClosed, 0),
                    Err(PartitionError::NotHere(_)) => {
                        applied.retry.push(id);
                        continue;
                    }
                    Err(
                        error @ (PartitionError::OutOfOrder { .. }
                        | PartitionError::OverlapsApplied { .. }
                        | PartitionError::Full { .. }),
                    ) => {
                        // Parts that other partitions have applied are replicated all the same.
                        refusal = Some(error);
                        break;
                    }
                };
                // An earlier push may still be on its way to the backup.
                let links = replica.targets.iter().filter(|target| target.may_be_backup());
                applied.waits.extend(links.map(|target| (id, target.link.clone(), target.link.last_id())));
                applied.parts.push(AppliedPart {
                    id,
                    outcome,
                    version,
                    generation: replica.last_applied.generation,
                    primary_since: replica.primary_since,
                });
            }
            Ok(())
        })?;
        for (link, id, parts) in sends {
            let partitions = PartitionId::all().filter(|id| parts.iter().any(|part| part.partition == id.number()));
            let theirs = decoded.only(&layout, &push, &partitions.collect::<Vec<_>>());
            link.send_push(id, parts, theirs);
        }
        if let Some(error) = refusal {
            return Err(DecodeError::Partition(error));
        }
        Ok(applied)
    }
}

/// The result of a push on this server.
#[derive(Default)]
struct AppliedPush {
    parts: Vec<AppliedPart>,
    /// Parts that the client has to retry.
    retry: Vec<PartitionId>,
    /// The message that the backup of each partition has to apply before the reply.
    waits: Vec<(PartitionId, Arc<ReplicationLink>, u64)>,
}

struct AppliedPart {
    id: PartitionId,
    outcome: wire::pushed_part::Outcome,
    version: u64,
    generation: PartitionGeneration,
    /// Map epoch in which this server was appointed primary.
    primary_since: MapEpoch,
}

impl AppliedPush {
    fn reply(&self) -> wire::Pushed {
        let applied = self.parts.iter().map(|part| wire::PushedPart {
            partition: part.id.number(),
            outcome: part.outcome.into(),
            version: part.version,
            generation: part.generation.0,
        });
        let retry = self.retry.iter().map(|id| wire::PushedPart {
            partition: id.number(),
            outcome: wire::pushed_part::Outcome::Retry.into(),
            ..wire::PushedPart::default()
        });
        wire::Pushed { parts: applied.chain(retry).collect() }
    }

    /// Waits until the backups have the push, or the master has removed them. Parts of partitions that this server is no
    /// longer primary of by then count as not applied.
    async fn wait_for_backups(mut self, server: &Server) -> wire::Pushed {
        for (id, link, message_id) in std::mem::take(&mut self.waits) {
            link.wait_until_applied(message_id, || server.waits_for(id, &link)).await;
        }
        let replicas = &server.0.replicas;
        let is_mine = |part: &AppliedPart| {
            let replica = replicas.lock(part.id);
            // A primary that lost the partition and got it back has the contents of another server.
            replica.role == ReplicaRole::Primary
                && replica.last_applied.generation == part.generation
                && replica.primary_since == part.primary_since
        };
        let (kept, lost): (Vec<AppliedPart>, Vec<AppliedPart>) = self.parts.into_iter().partition(is_mine);
        self.parts = kept;
        self.retry.extend(lost.into_iter().map(|part| part.id));
        self.reply()
    }
}

impl Server {
    /// What an acknowledgement of a change that was sent over a link waits for.
    pub(super) fn waits_for(&self, id: PartitionId, link: &Arc<ReplicationLink>) -> WaitFor {
        let replica = self.0.replicas.lock(id);
        let mut backups = replica.targets.iter().filter(|one| one.may_be_backup() && Arc::ptr_eq(&one.link, link));
        match backups.next().filter(|_| replica.role == ReplicaRole::Primary).map(|target| target.sync_state) {
            Some(SyncState::InSync) => WaitFor::Acknowledgement,
            Some(SyncState::Lagging) => WaitFor::MasterDecision,
            Some(SyncState::Syncing) | None => WaitFor::Nothing,
        }
    }
}

/// A pull that is refused.
#[derive(Debug, thiserror::Error)]
enum PullRefused {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Pull(#[from] PullError),
}

/// The versions of the partitions that a pull reads.
#[derive(Default)]
struct Versions(BTreeMap<PartitionId, wire::PartitionVersion>);

impl Versions {
    fn add(&mut self, server: &Server, hosted: &HostedPartitions, id: PartitionId) {
        let generation = server.0.replicas.lock(id).last_applied.generation;
        self.add_of(hosted, id, generation);
    }

    fn add_of(&mut self, hosted: &HostedPartitions, id: PartitionId, generation: PartitionGeneration) {
        if let Ok(version) = hosted.with(id, |partition| partition.version()) {
            let (partition, generation) = (id.number(), generation.0);
            self.0.entry(id).or_insert(wire::PartitionVersion { partition, generation, version });
        }
    }
}
