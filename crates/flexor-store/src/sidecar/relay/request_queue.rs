//! The queued requests of one connection.
//!
//! Only requests without a reply can make a queue very long. So the search for the first request with a reply must not
//! scan all requests each time.

use std::collections::VecDeque;

use super::operation::{Operation, QueuedRequest};

#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    requests: VecDeque<QueuedRequest>,
    /// How many requests have a reply.
    replies: usize,
}

impl RequestQueue {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn has_replies(&self) -> bool {
        self.replies > 0
    }

    pub(super) fn push(&mut self, request: QueuedRequest) {
        self.insert(self.requests.len(), request);
    }

    pub(super) fn insert(&mut self, index: usize, request: QueuedRequest) {
        self.replies += usize::from(request.is_reply());
        self.requests.insert(index, request);
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<QueuedRequest> {
        let request = self.requests.remove(index)?;
        self.replies -= usize::from(request.is_reply());
        Some(request)
    }

    /// The index of the first request that has a reply.
    pub(super) fn first_reply(&self) -> Option<usize> {
        match self.replies {
            0 => None,
            // Usually it is the last one.
            1 => self.requests.iter().rposition(QueuedRequest::is_reply),
            _ => self.requests.iter().position(QueuedRequest::is_reply),
        }
    }

    /// The index of the first request that a CANCEL_WAIT can end.
    pub(super) fn first_wait(&self) -> Option<usize> {
        if self.replies == 0 { None } else { self.requests.iter().position(QueuedRequest::is_wait) }
    }

    /// Keeps the operations for which `keep` returns true. `keep` may change them.
    pub(super) fn retain_operations(&mut self, mut keep: impl FnMut(&mut Operation) -> bool) {
        self.requests.retain_mut(|request| match request {
            QueuedRequest::Operation(operation) => keep(operation),
            QueuedRequest::LocalReply(_) => false,
        });
        self.replies = self.requests.iter().filter(|request| request.is_reply()).count();
    }
}
