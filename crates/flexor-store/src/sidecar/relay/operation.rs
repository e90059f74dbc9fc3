//! A request of a client and the answer that it expects of the master.

use bytes::Bytes;

use super::listed_keys::ListedKeys;
use crate::codec::{Opcode, Reply, Request};

/// A request that the master has to answer.
#[derive(Debug)]
pub(super) struct Operation {
    /// The bytes of the request in TCPStore's protocol.
    pub(super) request: Bytes,
    pub(super) expects: ExpectedAnswer,
}

/// What the client expects of the master's answer to an operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    /// No reply: the protocol has none, or the client has closed the connection.
    Nothing,
    /// A reply.
    Reply,
    /// A reply that is made of the master's list of all keys.
    ListedKeys(ListedKeys),
    /// A reply when all of these keys exist.
    Keys(Vec<Bytes>),
    /// A reply when all clients have reached the barrier.
    Barrier,
    /// No reply any more: the wait was answered locally, and a CANCEL_WAIT follows. The master answers the CANCEL_WAIT,
    /// and the wait only if it had done so before.
    Canceled,
    /// The master's confirmation that the wait before this CANCEL_WAIT is over. The client gets no reply.
    Cancellation,
}

/// A request of a client that was not sent yet.
#[derive(Debug)]
pub(super) enum QueuedRequest {
    /// To be sent to the master.
    Operation(Operation),
    /// To be answered locally after all requests before it are answered.
    LocalReply(Reply),
}

impl Operation {
    /// The operation of a request about keys below a prefix; none for requests that the sidecar answers itself.
    pub(super) fn of(request: Request, prefix: &Bytes) -> Option<Operation> {
        if !prefix.is_empty() {
            return Operation::below(request, prefix);
        }
        let bytes = request.to_bytes();
        let expects = match request {
            Request::Validate | Request::Ping { .. } | Request::CancelWait => return None,
            Request::Set { .. } | Request::Append { .. } | Request::MultiSet { .. } | Request::QueuePush { .. } => {
                ExpectedAnswer::Nothing
            }
            Request::Wait { keys } => ExpectedAnswer::Keys(keys),
            Request::Barrier { .. } => ExpectedAnswer::Barrier,
            Request::CompareSet { .. }
            | Request::Get { .. }
            | Request::Add { .. }
            | Request::Check { .. }
            | Request::GetNumKeys
            | Request::DeleteKey { .. }
            | Request::MultiGet { .. }
            | Request::QueuePop { .. }
            | Request::QueueLen { .. }
            | Request::ListKeys => ExpectedAnswer::Reply,
        };
        Some(Operation { request: bytes, expects })
    }

    fn below(request: Request, prefix: &Bytes) -> Option<Operation> {
        let listed = match request {
            Request::GetNumKeys => ListedKeys::Count(prefix.clone()),
            Request::ListKeys => ListedKeys::Names(prefix.clone()),
            other => return Operation::of(other.with_prefix(prefix), &Bytes::new()),
        };
        Some(Operation { request: Request::ListKeys.to_bytes(), expects: ExpectedAnswer::ListedKeys(listed) })
    }

    /// Cancels the wait before it.
    pub(super) fn cancel_wait() -> Operation {
        Operation { request: Request::CancelWait.to_bytes(), expects: ExpectedAnswer::Cancellation }
    }

    /// Whether the operation is carried out although its client has closed the connection.
    ///
    /// A compare-and-set is not: its client would have acted on the reply, and a node that tried to join a rendezvous and
    /// died must not join after its death.
    pub(super) fn survives_client(&self) -> bool {
        let opcode = self.request.first().and_then(|byte| Opcode::try_from(*byte).ok());
        match opcode {
            Some(
                Opcode::Set
                | Opcode::MultiSet
                | Opcode::Append
                | Opcode::Add
                | Opcode::DeleteKey
                | Opcode::QueuePush
                | Opcode::QueuePop
                | Opcode::Barrier
                | Opcode::CancelWait,
            ) => true,
            Some(
                Opcode::Validate
                | Opcode::CompareSet
                | Opcode::Get
                | Opcode::MultiGet
                | Opcode::Check
                | Opcode::Wait
                | Opcode::GetNumKeys
                | Opcode::ListKeys
                | Opcode::Ping
                | Opcode::QueueLen,
            )
            | None => false,
        }
    }
}

impl ExpectedAnswer {
    /// Whether the client waits for a reply.
    pub(super) fn is_reply(&self) -> bool {
        match self {
            ExpectedAnswer::Reply
            | ExpectedAnswer::ListedKeys(_)
            | ExpectedAnswer::Keys(_)
            | ExpectedAnswer::Barrier => true,
            ExpectedAnswer::Nothing | ExpectedAnswer::Canceled | ExpectedAnswer::Cancellation => false,
        }
    }

    /// The reply for the client, made of the master's.
    pub(super) fn translate(&self, reply: Bytes) -> Bytes {
        match self {
            ExpectedAnswer::ListedKeys(listed) => listed.reply(reply),
            ExpectedAnswer::Nothing
            | ExpectedAnswer::Reply
            | ExpectedAnswer::Keys(_)
            | ExpectedAnswer::Barrier
            | ExpectedAnswer::Canceled
            | ExpectedAnswer::Cancellation => reply,
        }
    }

    /// Whether a CANCEL_WAIT can end the operation.
    pub(super) fn is_wait(&self) -> bool {
        match self {
            ExpectedAnswer::Keys(_) | ExpectedAnswer::Barrier => true,
            ExpectedAnswer::Nothing
            | ExpectedAnswer::Reply
            | ExpectedAnswer::ListedKeys(_)
            | ExpectedAnswer::Canceled
            | ExpectedAnswer::Cancellation => false,
        }
    }
}

impl QueuedRequest {
    pub(super) fn is_reply(&self) -> bool {
        match self {
            QueuedRequest::Operation(operation) => operation.expects.is_reply(),
            QueuedRequest::LocalReply(_) => true,
        }
    }

    pub(super) fn is_wait(&self) -> bool {
        match self {
            QueuedRequest::Operation(operation) => operation.expects.is_wait(),
            QueuedRequest::LocalReply(_) => false,
        }
    }
}
