//! What clients ask: values, and gradients to be applied.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use flexor_model::PsEpoch;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_server::ParameterServer;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::decode::{BasedOn, DecodeError, DecodedKeys, DecodedPush, slice_of};
use super::links::{Link, Wait};
use super::numbers::Origin;
use super::post::{Role, Standing};
use super::{Server, copies, snapshots};
use crate::dial::MAX_MESSAGE;
use crate::hosted::{DenseAnswer, Hosted, KnownSlice, PullError, Reading};
use crate::little_endian::floats_as_bytes;
use crate::partition::{Pushed, Turned};
use crate::placement::PartitionId;
use crate::push::AnswerSize;
use crate::snapshot::SnapshotId;

/// How many pushes of a client may wait for copies at a time; while they do, no more are read.
const WAITING: usize = 64;

pub(super) struct WorkService {
    server: Server,
}

impl WorkService {
    pub(super) fn new(server: Server) -> Self {
        Self { server }
    }
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ParameterServer for WorkService {
    type WorkStream = Messages<wire::Reply>;
    type CopyStream = Messages<wire::FromCopy>;
    type SnapshotStream = Messages<wire::SnapshotTaken>;

    async fn work(&self, request: Request<Streaming<wire::Request>>) -> Result<Response<Self::WorkStream>, Status> {
        self.server.0.me.addressee().check(request.metadata())?;
        let client =
            Client { server: self.server.clone(), requests: request.into_inner(), waiting: FuturesUnordered::new() };
        let replies = futures::stream::unfold(client, async |mut client| {
            let reply = client.next().await?;
            Some((Ok(reply), client))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn copy(&self, request: Request<Streaming<wire::FromOwner>>) -> Result<Response<Self::CopyStream>, Status> {
        self.server.0.me.addressee().check(request.metadata())?;
        Ok(Response::new(Box::pin(copies::take_in(self.server.clone(), request.into_inner()))))
    }

    async fn snapshot(&self, request: Request<wire::TakeSnapshot>) -> Result<Response<Self::SnapshotStream>, Status> {
        self.server.0.me.addressee().check(request.metadata())?;
        Ok(Response::new(Box::pin(self.server.take_snapshot(request.get_ref())?)))
    }
}

/// A client is the stream of its replies.
struct Client {
    server: Server,
    requests: Streaming<wire::Request>,
    /// Pushes that were applied here, and are answered when their copies have them too.
    waiting: FuturesUnordered<BoxFuture<'static, wire::Reply>>,
}

impl Client {
    async fn next(&mut self) -> Option<wire::Reply> {
        loop {
            tokio::select! {
                request = self.requests.next(), if self.waiting.len() < WAITING => match request {
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
                            server.when_taken(step).await?;
                            let pulled = server.pulled(&hosted, &pull);
                            // All may have gone back while the values were read.
                            server.has_not_gone_back(step)?;
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
                    Ok(applied) if applied.waits.is_empty() => now(wire::reply::Result::Pushed(applied.parts())),
                    Ok(applied) => {
                        let server = self.clone();
                        let reply = async move {
                            let pushed = applied.when_copied(&server).await;
                            wire::Reply { id, result: Some(wire::reply::Result::Pushed(pushed)) }
                        };
                        Answer::Later(reply.boxed())
                    }
                },
            },
            None => now(refused(&"neither a pull nor a push")),
        }
    }

    /// The answer to a request, when there is one.
    #[cfg(test)]
    pub(super) async fn answered(&self, request: wire::Request) -> wire::Reply {
        match self.answer(request) {
            Answer::Now(reply) => reply,
            Answer::Later(reply) => reply.await,
        }
    }

    fn pulled(&self, hosted: &Hosted, pull: &wire::Pull) -> wire::reply::Result {
        match self.pull(hosted, pull) {
            Ok(pulled) => wire::reply::Result::Pulled(pulled),
            Err(PullRefused::Pull(PullError::Snapshot(why))) => wire::reply::Result::Lost(snapshots::lost(why)),
            Err(error) => wire::reply::Result::Refused(error.to_string()),
        }
    }

    fn pull(&self, hosted: &Hosted, pull: &wire::Pull) -> Result<wire::Pulled, PullRefused> {
        let layout = hosted.layout();
        let reading = match (pull.snapshot, pull.at_step) {
            (Some(snapshot), _) => Reading::Snapshot(SnapshotId(snapshot)),
            (None, _) if pull.peek => Reading::Peek,
            (None, Some(step)) => Reading::Step(step.steps),
            (None, None) => Reading::Train,
        };
        // All of it before any of it is read: a pull makes rows, and one that is refused makes none.
        let of_rows = pull.rows.iter().map(|rows| DecodedKeys::of(&layout, rows.table, &rows.keys));
        let of_rows = of_rows.collect::<Result<Vec<_>, DecodeError>>()?;
        let of_slices = pull.slices.iter().map(|wanted| {
            let slice = slice_of(wanted.slice.as_ref().ok_or(DecodeError::NoSlice)?);
            let id = layout.partition_of(slice).ok_or(crate::push::BadRequest::UnknownSlice(slice))?;
            Ok((slice, id, wanted.known))
        });
        let of_slices = of_slices.collect::<Result<Vec<_>, DecodeError>>()?;
        let size = AnswerSize::of(&layout, of_rows.iter().map(DecodedKeys::wanted), of_slices.iter().map(|of| of.0));
        size.check(MAX_MESSAGE).map_err(DecodeError::Bad)?;
        let mut pulled = wire::Pulled::default();
        let mut elsewhere = BTreeSet::new();
        let mut versions = Versions::default();
        for keys in &of_rows {
            let (wanted, mut values) = (keys.wanted(), Vec::new());
            elsewhere.extend(wanted.buckets.partitions().filter(|id| self.0.posts.lock(*id).role != Role::Owner));
            if pull.versions {
                // Before the values are read: they are of this version or a later one.
                wanted.buckets.partitions().for_each(|id| versions.add(self, hosted, id));
            }
            let turned = hosted.pull(wanted, reading, &mut values)?;
            elsewhere.extend(turned.iter().map(Turned::partition));
            pulled.rows.push(floats_as_bytes(values));
        }
        let mut known = Vec::with_capacity(of_slices.len());
        let mut origins = BTreeMap::new();
        for (slice, id, seen) in of_slices {
            let post = self.0.posts.lock(id);
            if post.role != Role::Owner {
                elsewhere.extend([id]);
                continue;
            }
            origins.insert(slice, post.turn.origin);
            if pull.versions {
                versions.add_of(hosted, id, post.turn.origin);
            }
            let is_same = seen.filter(|seen| Origin(seen.origin) == post.turn.origin);
            known.push(KnownSlice { slice, known: is_same.map(|known| known.version) });
        }
        hosted.pull_dense(&known, reading, |slice, answer| match answer {
            DenseAnswer::NotModified => {}
            DenseAnswer::Modified { version, weights } => pulled.slices.push(wire::SliceValues {
                slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
                version: Some(wire::SliceVersion { origin: origins.get(&slice).map_or(0, |origin| origin.0), version }),
                values: floats_as_bytes(weights.to_vec()),
            }),
            DenseAnswer::Elsewhere => elsewhere.extend(layout.partition_of(slice)),
        })?;
        hosted.count_pull(of_rows.iter().map(|keys| keys.wanted().keys.len()).sum());
        pulled.elsewhere = elsewhere.into_iter().map(PartitionId::number).collect();
        pulled.versions = versions.0.into_values().collect();
        Ok(pulled)
    }

    /// Applies what is for partitions that this server answers for, and sends it to their copies.
    fn push(&self, hosted: &Hosted, push: wire::Push) -> Result<Applied, DecodeError> {
        let layout = hosted.layout();
        let decoded = DecodedPush::of(&layout, &push)?;
        let mut applied = Applied::default();
        let mut sends: Vec<(Arc<Link>, u64, Vec<wire::AppliedPart>)> = Vec::new();
        let mut wrong = None;
        decoded.with(|view| -> Result<(), DecodeError> {
            let checked = hosted.check(view)?;
            let based_on = BasedOn::of(&push);
            hosted.count(&checked);
            for id in checked.partitions() {
                let mut post = self.0.posts.lock(id);
                // With the post in hand: it is of this history.
                let rewound = self.rewound();
                let is_behind = push.rewound.is_some_and(|theirs| rewound.is_none_or(|known| theirs > known));
                if !post.is_open() || is_behind {
                    applied.elsewhere.push(id);
                    continue;
                }
                if push.rewound.is_some() && push.rewound < rewound {
                    // It was computed with values that are gone, and its batch is computed again.
                    let (outcome, since) = (wire::pushed_part::Outcome::TooLate, post.owned_since);
                    applied.taken.push(Part { id, outcome, version: 0, origin: post.turn.origin, since });
                    continue;
                }
                let based_on = based_on.version(id, post.turn.origin);
                let pushed =
                    hosted.with(id, |partition| partition.take(&checked, push.rewound.is_some(), based_on)).flatten();
                let (outcome, version) = match pushed {
                    Ok(Pushed::Applied { version }) => {
                        post.turn = post.turn.next();
                        self.give_up_flooded(id, &mut post);
                        for follower in &post.followers {
                            let part = wire::AppliedPart {
                                partition: id.number(),
                                origin: post.turn.origin.0,
                                number: post.turn.change,
                                map: post.map.0,
                                copy: follower.copy.map(|copy| copy.0),
                            };
                            // The number of the message is taken under the lock: whoever waits for everything that was
                            // applied so far waits for this message too.
                            match sends.iter_mut().find(|(link, _, _)| Arc::ptr_eq(link, &follower.link)) {
                                Some((_, _, parts)) => parts.push(part),
                                None => sends.push((follower.link.clone(), follower.link.reserve(), vec![part])),
                            }
                        }
                        (wire::pushed_part::Outcome::Taken, version)
                    }
                    Ok(Pushed::AlreadyApplied { version }) => (wire::pushed_part::Outcome::TakenBefore, version),
                    Ok(Pushed::Closed) => (wire::pushed_part::Outcome::TooLate, 0),
                    Err(Turned::Elsewhere(_)) => {
                        applied.elsewhere.push(id);
                        continue;
                    }
                    Err(turned @ (Turned::OutOfOrder { .. } | Turned::CutElsewhere { .. } | Turned::Full { .. })) => {
                        // What other partitions have taken goes to their copies all the same.
                        wrong = Some(turned);
                        break;
                    }
                };
                // What was applied before may still be on its way to the copy.
                let links = post.followers.iter().filter(|follower| follower.is_whole());
                applied.waits.extend(links.map(|follower| (id, follower.link.clone(), follower.link.last())));
                applied.taken.push(Part { id, outcome, version, origin: post.turn.origin, since: post.owned_since });
            }
            Ok(())
        })?;
        for (link, number, parts) in sends {
            let theirs = PartitionId::all().filter(|id| parts.iter().any(|part| part.partition == id.number()));
            let theirs = decoded.only(&layout, &push, &theirs.collect::<Vec<_>>());
            link.send(number, parts, theirs);
        }
        if let Some(wrong) = wrong {
            return Err(DecodeError::Turned(wrong));
        }
        Ok(applied)
    }
}

/// What has become of a push.
#[derive(Default)]
struct Applied {
    taken: Vec<Part>,
    elsewhere: Vec<PartitionId>,
    /// Whose copies have to be where before it is answered.
    waits: Vec<(PartitionId, Arc<Link>, u64)>,
}

struct Part {
    id: PartitionId,
    outcome: wire::pushed_part::Outcome,
    version: u64,
    origin: Origin,
    /// Since which map this server has owned the partition.
    since: PsEpoch,
}

impl Applied {
    fn parts(&self) -> wire::Pushed {
        let taken = self.taken.iter().map(|part| wire::PushedPart {
            partition: part.id.number(),
            outcome: part.outcome.into(),
            version: part.version,
            origin: part.origin.0,
        });
        let elsewhere = self.elsewhere.iter().map(|id| wire::PushedPart {
            partition: id.number(),
            outcome: wire::pushed_part::Outcome::Elsewhere.into(),
            ..wire::PushedPart::default()
        });
        wire::Pushed { parts: taken.chain(elsewhere).collect() }
    }

    /// Waits until the copies have the same, or the master has said that they are none any more. What this server does
    /// not answer for any more by then was not taken, as far as anybody need know.
    async fn when_copied(mut self, server: &Server) -> wire::Pushed {
        for (id, link, number) in std::mem::take(&mut self.waits) {
            link.reached(number, || server.waits_for(id, &link)).await;
        }
        let posts = &server.0.posts;
        let is_mine = |part: &Part| {
            let post = posts.lock(part.id);
            // One that has lost it and got it back has it from somebody else.
            post.role == Role::Owner && post.turn.origin == part.origin && post.owned_since == part.since
        };
        let (taken, lost): (Vec<Part>, Vec<Part>) = self.taken.into_iter().partition(is_mine);
        self.taken = taken;
        self.elsewhere.extend(lost.into_iter().map(|part| part.id));
        self.parts()
    }
}

impl Server {
    /// What there is to wait for before anybody is answered for what was applied to a partition and sent over a link.
    pub(super) fn waits_for(&self, id: PartitionId, link: &Arc<Link>) -> Wait {
        let post = self.0.posts.lock(id);
        let mut whole = post.followers.iter().filter(|one| one.is_whole() && Arc::ptr_eq(&one.link, link));
        match whole.next().filter(|_| post.role == Role::Owner).map(|follower| follower.standing) {
            Some(Standing::Whole) => Wait::Applied,
            Some(Standing::Missed) => Wait::Decided,
            Some(Standing::Arriving) | None => Wait::Over,
        }
    }
}

/// A pull that cannot be answered.
#[derive(Debug, thiserror::Error)]
enum PullRefused {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Pull(#[from] PullError),
}

/// The versions of partitions that something is read of.
#[derive(Default)]
struct Versions(BTreeMap<PartitionId, wire::PartitionVersion>);

impl Versions {
    fn add(&mut self, server: &Server, hosted: &Hosted, id: PartitionId) {
        let origin = server.0.posts.lock(id).turn.origin;
        self.add_of(hosted, id, origin);
    }

    fn add_of(&mut self, hosted: &Hosted, id: PartitionId, origin: Origin) {
        if let Ok(version) = hosted.with(id, |partition| partition.version()) {
            let (partition, origin) = (id.number(), origin.0);
            self.0.entry(id).or_insert(wire::PartitionVersion { partition, origin, version });
        }
    }
}
