//! Taking in copies: the side of who keeps them.
//!
//! Pieces make a partition; what its owner applies meanwhile waits until all of them are here. From then on changes are
//! applied one after the other by their numbers, whichever message brings them, and each message is answered when all
//! of it is done.

mod incoming;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use flexor_wire::ps::v1 as wire;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

pub(super) use self::incoming::Copies;
use self::incoming::{Answers, Coming, Incoming, Message, Ready, Room, Waiting, Whole, say};
use super::Server;
use super::decode::{BasedOn, DecodedPush};
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
            begun.insert((piece.partition, piece.copy));
        }
        if let Err((partition, detail)) = server.take(message, &answers) {
            say(&answers, wire::from_copy::Message::Refused(wire::CopyRefused { partition, detail, copy: 0 }));
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
            wire::from_owner::Message::Owner(owner) => {
                tracing::debug!(owner = owner.name, "sends copies");
                Ok(())
            }
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
        let mut incoming = self.0.copies.of(id).lock();
        if piece.copy <= incoming.dropped {
            say(answers, wire::from_copy::Message::Taken(1));
            return Ok(());
        }
        let begin = || {
            let partition = Arriving::new(&hosted.layout(), id);
            Coming { copy: piece.copy, partition, map: piece.map }
        };
        let mut coming = incoming.arriving.take_if(|coming| coming.copy == piece.copy).unwrap_or_else(begin);
        // However it ends, another piece may follow.
        say(answers, wire::from_copy::Message::Taken(1));
        if !piece.last {
            let made = Piece::from_bytes(&piece.piece).map_err(|error| refused(&error))?;
            let taken = coming.partition.take(made).map_err(|error| refused(&error));
            incoming.arriving = Some(coming);
            return taken;
        }
        let Coming { copy, partition, .. } = coming;
        let partition = partition.finish().map_err(|error| refused(&error))?;
        let (origin, number, map) = (piece.origin, piece.number, piece.map);
        incoming.ready = Some(Ready { copy, partition, origin, number, map, answers: answers.clone() });
        let mut post = self.0.posts.lock(id);
        put_in_place(hosted, id, &mut post, &mut incoming).map_err(|error| refused(&error))
    }

    fn take_applied(&self, applied: wire::Applied, answers: &Answers) -> Result<(), Refused> {
        let first = applied.parts.first().map_or(0, |part| part.partition);
        let refused = |detail: &dyn std::fmt::Display| (first, detail.to_string());
        let hosted = self.0.hosted.get().ok_or_else(|| refused(&"the model is not known here yet"))?;
        let push = applied.push.ok_or_else(|| refused(&"nothing was applied"))?;
        let (in_step, based_on) = (push.in_step, BasedOn::of(&push));
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
                let is_behind = part.map > post.map;
                if part.map < post.owned_since || (post.role == Role::Owner && !is_behind) {
                    message.part_turned(id);
                    continue;
                }
                let is_awaited = incoming.has(part.copy);
                let waiting = Waiting { message: message.clone(), is_awaited, copy: part.copy, map: part.map };
                if post.role == Role::Owner {
                    // The sender has heard before this server that it is the owner now.
                    if !is_awaited {
                        message.part_done();
                    }
                    incoming.wait(id, (part.origin, part.number), waiting);
                    continue;
                }
                // What is for a copy that is still to come says nothing about what is here: that may be of an owner before.
                let is_old = part.origin < post.origin
                    || (is_awaited && part.origin == post.origin && part.number <= post.number);
                let is_for_nobody = match part.copy {
                    Some(copy) => copy <= incoming.dropped,
                    // It was a backup, and is none any more.
                    None => post.role == Role::Away && !is_behind,
                };
                if is_old || is_for_nobody {
                    message.part_done();
                    continue;
                }
                if !is_awaited {
                    message.part_done();
                }
                if let Some(copy) = part.copy.filter(|_| !is_awaited && self.0.copies.is_full()) {
                    let refused = incoming.refuse(id, copy, "training changes it faster than it can be copied");
                    say(&message.answers, refused);
                    continue;
                }
                incoming.wait(id, (part.origin, part.number), waiting);
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
        let mut incoming = self.0.copies.of(id).lock();
        let post = self.0.posts.lock(id);
        incoming.drop_copy(dropped.copy);
        if post.role == Role::Away && incoming.whole.is_some_and(|whole| whole.copy == dropped.copy) {
            incoming.whole = None;
            if let Some(hosted) = self.0.hosted.get() {
                hosted.remove(id);
            }
        }
    }

    fn forget_arriving(&self, partition: u32, copy: u64) {
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
        let coming =
            incoming.arriving.as_ref().filter(|coming| coming.map < post.owned_since).map(|coming| coming.copy);
        if let Some(copy) = coming {
            incoming.drop_copy(copy);
        }
        if post.role == Role::Away
            && incoming.whole.take_if(|whole| whole.map < post.owned_since).is_some()
            && let Some(hosted) = self.0.hosted.get()
        {
            hosted.remove(id);
        }
        let owns = post.role == Role::Owner;
        if owns && incoming.arriving.is_none() && incoming.ready.is_none() {
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
        let origin = post.origin;
        incoming.waiting.retain(|(of, _), waiting| {
            let is_old = *of < origin;
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
    let Some(ready) = incoming.ready.take_if(|ready| ready.map <= post.map) else { return Ok(()) };
    let Ready { copy, partition, origin, number, map, answers } = ready;
    if post.role == Role::Owner || map < post.owned_since {
        let why = format!("it has another owner since map {}", post.owned_since);
        say(&answers, incoming.refuse(id, copy, &why));
        return Ok(());
    }
    hosted.install(partition);
    (post.origin, post.number) = (origin, number);
    incoming.whole = Some(Whole { copy, map });
    // What this server had not come to when it was to keep no copy any more is in the one that it has got since.
    incoming.waiting.retain(|turn, waiting| {
        let is_in_it = *turn <= (origin, number);
        match waiting.map < post.owned_since {
            _ if !is_in_it => {}
            true => waiting.turned(id),
            false => waiting.done(),
        }
        !is_in_it
    });
    catch_up(hosted, id, post, incoming, None)?;
    say(&answers, wire::from_copy::Message::Whole(wire::CopyWhole { partition: id.number(), copy }));
    Ok(())
}

/// Carries out what waits and whose turn has come; `now` is likely to be the next of it.
fn catch_up(
    hosted: &Hosted,
    id: PartitionId,
    post: &mut Post,
    incoming: &mut Incoming,
    now: Option<&Checked<'_>>,
) -> Result<(), String> {
    if incoming.arriving.is_some() || incoming.ready.is_some() || !hosted.holds(id) {
        return Ok(());
    }
    loop {
        let next = (post.origin, post.number + 1);
        if !incoming.waiting.get(&next).is_some_and(|waiting| incoming.has(waiting.copy)) {
            return Ok(());
        }
        let Some(waiting) = incoming.waiting.remove(&next) else { return Ok(()) };
        let message = &waiting.message;
        let take_over = |push: &CheckedPush<'_>| {
            let based_on = message.based_on.version(id, post.origin);
            let pushed = hosted.with(id, |partition| partition.take_over(push, message.in_step, based_on)).flatten();
            pushed.map_err(|turned| turned.to_string())
        };
        match now.filter(|now| Arc::ptr_eq(now.message, message)) {
            Some(now) => take_over(now.push),
            None => message.push.with(|push| take_over(&hosted.check(push).map_err(|error| error.to_string())?)),
        }?;
        post.number += 1;
        waiting.done();
    }
}
