//! Taking in copies: the side of who keeps them.
//!
//! Pieces make a partition; what its owner applies meanwhile waits until all of them are here. From then on changes are
//! applied one after the other by their numbers, whichever message brings them, and each message is answered when all
//! of it is done.

mod incoming;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use flexor_model::PsEpoch;
use flexor_wire::ps::v1 as wire;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use self::incoming::{Answers, Come, Coming, Message, Room, Waiting, Whole, say};
pub(super) use self::incoming::{Copies, Incoming};
use self::verdict::{Change, Verdict};
use super::Server;
use super::decode::{BasedOn, DecodedPush};
use super::numbers::{CopyNumber, Origin, Turn};
use super::post::{Post, Role};
use crate::hosted::Hosted;
use crate::partition::Arriving;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::push::CheckedPush;

/// A message that has just come and was checked, once for all of its parts.
struct Checked<'a> {
    message: &'a Arc<Message>,
    push: &'a CheckedPush<'a>,
}

/// Takes in what an owner sends, until its stream ends. The answers.
pub(super) fn take_in(
    server: Server,
    messages: Streaming<wire::FromOwner>,
) -> impl Stream<Item = Result<wire::FromCopy, Status>> + Send {
    let (answers, receiver) = mpsc::unbounded_channel();
    tokio::spawn(follow(server, messages, answers));
    UnboundedReceiverStream::new(receiver)
}

async fn follow(server: Server, mut messages: Streaming<wire::FromOwner>, answers: Answers) {
    // The owner may have heard of this server before this server has heard of anything.
    server.when_known().await;
    let mut begun = BTreeSet::new();
    while let Some(Ok(message)) = messages.next().await {
        let Some(message) = message.message else { continue };
        if let wire::from_owner::Message::Piece(piece) = &message {
            begun.insert((piece.partition, CopyNumber(piece.copy)));
        }
        if let Err((partition, detail)) = server.take(message, &answers) {
            // Nobody listens any more only when the stream has ended.
            let _ = answers.send(Err(Status::invalid_argument(format!("partition {partition}: {detail}"))));
            break;
        }
    }
    // What is not whole will never be.
    for (partition, copy) in begun {
        server.forget_arriving(partition, copy);
    }
}

type Refused = (u32, String);

impl Server {
    fn take(&self, message: wire::from_owner::Message, answers: &Answers) -> Result<(), Refused> {
        match message {
            wire::from_owner::Message::Piece(piece) => self.take_piece(&piece, answers),
            wire::from_owner::Message::Applied(applied) => self.take_applied(applied, answers),
            wire::from_owner::Message::Dropped(dropped) => {
                self.drop_copy(&dropped);
                Ok(())
            }
        }
    }

    fn take_piece(&self, piece: &wire::CopyPiece, answers: &Answers) -> Result<(), Refused> {
        let refused = |detail: &dyn std::fmt::Display| (piece.partition, detail.to_string());
        let id = PartitionId::of_number(piece.partition).ok_or_else(|| refused(&"no such partition"))?;
        let hosted = self.0.hosted.get().ok_or_else(|| refused(&"the model is not known here yet"))?;
        let (copy, map) = (CopyNumber(piece.copy), PsEpoch(piece.map));
        let mut incoming = self.0.copies.of(id).lock();
        // However it ends, another piece may follow.
        say(answers, wire::from_copy::Message::Taken(1));
        let begin = || Coming { copy, map, come: Come::Some(Arriving::new(&hosted.layout(), id)) };
        let Some(Coming { come, .. }) = incoming.go_on(copy, begin) else { return Ok(()) };
        let Come::Some(mut arriving) = come else {
            return Err(refused(&"a copy goes on after its last piece"));
        };
        if !piece.last {
            let made = Piece::from_bytes(&piece.piece).map_err(|error| refused(&error))?;
            let taken = arriving.take(made).map_err(|error| refused(&error));
            incoming.coming = Some(Coming { copy, map, come: Come::Some(arriving) });
            return taken;
        }
        let partition = arriving.finish().map_err(|error| refused(&error))?;
        let turn = Turn { origin: Origin(piece.origin), change: piece.number };
        let come = Come::All { partition, turn, answers: answers.clone() };
        incoming.coming = Some(Coming { copy, map, come });
        let mut post = self.0.posts.lock(id);
        put_in_place(hosted, id, &mut post, &mut incoming).map_err(|error| refused(&error))
    }

    fn take_applied(&self, applied: wire::Applied, answers: &Answers) -> Result<(), Refused> {
        let first = applied.parts.first().map_or(0, |part| part.partition);
        let refused = |detail: &dyn std::fmt::Display| (first, detail.to_string());
        let hosted = self.0.hosted.get().ok_or_else(|| refused(&"the model is not known here yet"))?;
        let push = applied.push.ok_or_else(|| refused(&"nothing was applied"))?;
        let (in_step, based_on) = (push.rewound.is_some(), BasedOn::of(&push));
        let push = DecodedPush::of(&hosted.layout(), &push).map_err(|error| refused(&error))?;
        // One more than there are parts, so that the message is answered when all of them have been looked at.
        let left = AtomicUsize::new(applied.parts.len() + 1);
        let (without, answers) = (Mutex::default(), answers.clone());
        let room = Room::take(&self.0.copies.backlog, push.bytes());
        let message =
            Arc::new(Message { id: applied.id, push, in_step, based_on, left, without, answers, _room: room });
        message.push.with(|push| -> Result<(), Refused> {
            let checked = hosted.check(push).map_err(|error| refused(&error))?;
            let now = Checked { message: &message, push: &checked };
            for part in &applied.parts {
                let id = PartitionId::of_number(part.partition).ok_or_else(|| refused(&"no such partition"))?;
                let mut incoming = self.0.copies.of(id).lock();
                let mut post = self.0.posts.lock(id);
                let change = Change::of(part);
                let is_awaited = match Verdict::of(&change, &post, &incoming) {
                    Verdict::Turned => {
                        message.part_turned(id);
                        continue;
                    }
                    Verdict::Done => {
                        message.part_done();
                        continue;
                    }
                    Verdict::Waits => true,
                    Verdict::WaitsForCopy => {
                        message.part_done();
                        false
                    }
                };
                let Change { turn, copy, map } = change;
                if let Some(copy) = copy.filter(|_| !is_awaited && self.0.copies.is_full()) {
                    let refused = incoming.refuse(id, copy, "training changes it faster than it can be copied");
                    say(&message.answers, refused);
                    continue;
                }
                incoming.wait(id, turn, Waiting { message: message.clone(), is_awaited, copy, map });
                catch_up(hosted, id, &mut post, &mut incoming, Some(&now)).map_err(|error| refused(&error))?;
            }
            Ok(())
        })?;
        message.part_done();
        Ok(())
    }

    /// Forgets a copy that its owner has no use for, unless the map has made it this server's.
    fn drop_copy(&self, dropped: &wire::CopyDropped) {
        let Some(id) = PartitionId::of_number(dropped.partition) else { return };
        let copy = CopyNumber(dropped.copy);
        let mut incoming = self.0.copies.of(id).lock();
        let post = self.0.posts.lock(id);
        incoming.drop_copy(copy);
        if post.role == Role::Away && incoming.whole.is_some_and(|whole| whole.copy == copy) {
            incoming.whole = None;
            if let Some(hosted) = self.0.hosted.get() {
                hosted.remove(id);
            }
        }
    }

    fn forget_arriving(&self, partition: u32, copy: CopyNumber) {
        let Some(id) = PartitionId::of_number(partition) else { return };
        let mut incoming = self.0.copies.of(id).lock();
        if incoming.whole.is_none_or(|whole| whole.copy != copy) {
            incoming.drop_copy(copy);
        }
    }

    /// A plan was carried out for a partition: what waits and cannot come to its turn any more is answered.
    pub(super) fn settle_waiting(&self, id: PartitionId) {
        let mut incoming = self.0.copies.of(id).lock();
        let mut post = self.0.posts.lock(id);
        if let Some(hosted) = self.0.hosted.get()
            && let Err(error) = put_in_place(hosted, id, &mut post, &mut incoming)
        {
            tracing::error!(partition = %id, error, "a change cannot be applied to a copy");
        }
        // The owner that sends or has sent it is none any more, and does not say that nobody wants it.
        let of_before = incoming.coming.as_ref().filter(|coming| coming.map < post.owned_since);
        if let Some(copy) = of_before.map(|coming| coming.copy) {
            incoming.drop_copy(copy);
        }
        if post.role == Role::Away
            && incoming.whole.take_if(|whole| whole.map < post.owned_since).is_some()
            && let Some(hosted) = self.0.hosted.get()
        {
            hosted.remove(id);
        }
        let owns = post.role == Role::Owner;
        if owns && incoming.coming.is_none() {
            incoming.whole = None;
        }
        incoming.waiting.retain(|_, waiting| {
            // What an owner before the one of now has sent, and nobody was answered for, is worth nothing. What one after
            // it has sent, which has heard of a later map, stays.
            let is_turned = waiting.map < post.owned_since || (owns && waiting.map <= post.map);
            let is_for_nobody = post.role == Role::Away && waiting.copy.is_none() && waiting.map <= post.map;
            if is_turned {
                waiting.turned(id);
            } else if is_for_nobody {
                waiting.done();
            }
            !is_turned && !is_for_nobody
        });
    }

    /// A partition has begun on this server: what its owner has applied to it meanwhile may have come already.
    pub(super) fn catch_up(&self, hosted: &Hosted, id: PartitionId) {
        let mut incoming = self.0.copies.of(id).lock();
        let mut post = self.0.posts.lock(id);
        let origin = post.turn.origin;
        incoming.waiting.retain(|turn, waiting| {
            let is_old = turn.origin < origin;
            if is_old {
                waiting.done();
            }
            !is_old
        });
        if let Err(error) = catch_up(hosted, id, &mut post, &mut incoming, None) {
            tracing::error!(partition = %id, error, "a change cannot be applied to a copy");
        }
    }
}

/// Puts a copy that is whole in place, once this server has heard of the map by which its sender owns the partition: what
/// it keeps by an earlier one goes first. A copy that has another owner by then is refused.
fn put_in_place(hosted: &Hosted, id: PartitionId, post: &mut Post, incoming: &mut Incoming) -> Result<(), String> {
    let is_ready = |coming: &Coming| coming.map <= post.map && matches!(coming.come, Come::All { .. });
    let ready = incoming.coming.take_if(|coming| is_ready(coming));
    let Some(Coming { copy, map, come: Come::All { partition, turn, answers } }) = ready else { return Ok(()) };
    if post.role == Role::Owner || map < post.owned_since {
        let why = format!("it has another owner since map {}", post.owned_since);
        say(&answers, incoming.refuse(id, copy, &why));
        return Ok(());
    }
    hosted.install(partition);
    post.turn = turn;
    incoming.whole = Some(Whole { copy, map });
    // What this server had not come to when it was to keep no copy any more is in the one that it has got since.
    incoming.waiting.retain(|waits_for, waiting| {
        let is_in_it = *waits_for <= turn;
        match waiting.map < post.owned_since {
            _ if !is_in_it => {}
            true => waiting.turned(id),
            false => waiting.done(),
        }
        !is_in_it
    });
    catch_up(hosted, id, post, incoming, None)?;
    say(&answers, wire::from_copy::Message::Whole(wire::CopyWhole { partition: id.number(), copy: copy.0 }));
    Ok(())
}

/// Carries out what waits and whose turn has come; `now` is likely to be the next of it. Never on what this server owns as
/// far as it knows: who sends knows more, and what is here may go with the map that it has heard of.
fn catch_up(
    hosted: &Hosted,
    id: PartitionId,
    post: &mut Post,
    incoming: &mut Incoming,
    now: Option<&Checked<'_>>,
) -> Result<(), String> {
    if post.role == Role::Owner || incoming.coming.is_some() || !hosted.holds(id) {
        return Ok(());
    }
    loop {
        let next = post.turn.next();
        if !incoming.waiting.get(&next).is_some_and(|waiting| incoming.has(waiting.copy)) {
            return Ok(());
        }
        let Some(waiting) = incoming.waiting.remove(&next) else { return Ok(()) };
        let message = &waiting.message;
        let take_over = |push: &CheckedPush<'_>| {
            let based_on = message.based_on.version(id, next.origin);
            let pushed = hosted.with(id, |partition| partition.take_over(push, message.in_step, based_on)).flatten();
            pushed.map_err(|turned| turned.to_string())
        };
        let taken = match now.filter(|now| Arc::ptr_eq(now.message, message)) {
            Some(now) => take_over(now.push),
            None => message.push.with(|push| take_over(&hosted.check(push).map_err(|error| error.to_string())?)),
        };
        if let Err(why) = taken {
            // The owner must not wait for it: its copy is not what it should be, and the master has another made.
            waiting.turned(id);
            return Err(why);
        }
        post.turn = next;
        waiting.done();
    }
}
