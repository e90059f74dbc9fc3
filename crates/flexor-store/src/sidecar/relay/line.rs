//! The requests of one connection that wait for their turn.
//!
//! A line can become very long only by requests that have no reply, so finding the first that has one must not mean
//! looking at all of them each time.

use std::collections::VecDeque;

use super::operation::{Held, Operation};

#[derive(Debug, Default)]
pub(super) struct Line {
    held: VecDeque<Held>,
    /// How many of them have a reply.
    replies: usize,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn has_replies(&self) -> bool {
        self.replies > 0
    }

    pub(super) fn push(&mut self, held: Held) {
        self.insert(self.held.len(), held);
    }

    pub(super) fn insert(&mut self, place: usize, held: Held) {
        self.replies += usize::from(held.is_reply());
        self.held.insert(place, held);
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Held> {
        let held = self.held.remove(place)?;
        self.replies -= usize::from(held.is_reply());
        Some(held)
    }

    /// Where the first stands that has a reply.
    pub(super) fn first_reply(&self) -> Option<usize> {
        match self.replies {
            0 => None,
            // Mostly it has just come.
            1 => self.held.iter().rposition(Held::is_reply),
            _ => self.held.iter().position(Held::is_reply),
        }
    }

    /// Where the first stands that a CANCEL_WAIT can end.
    pub(super) fn first_wait(&self) -> Option<usize> {
        if self.replies == 0 { None } else { self.held.iter().position(Held::is_wait) }
    }

    /// Leaves only operations that are wanted, after a change to each.
    pub(super) fn retain_operations(&mut self, mut wanted: impl FnMut(&mut Operation) -> bool) {
        self.held.retain_mut(|held| match held {
            Held::Operation(operation) => wanted(operation),
            Held::Here(_) => false,
        });
        self.replies = self.held.iter().filter(|held| held.is_reply()).count();
    }
}
