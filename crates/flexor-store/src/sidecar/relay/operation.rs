//! One request of a client on its way to the master and back.

use bytes::Bytes;

use crate::codec::{Opcode, Reply, Request};

/// A request that the master has to see, as long as it has not answered it.
#[derive(Debug)]
pub(super) struct Operation {
    /// The request as its bytes stand in TCPStore's protocol.
    pub(super) request: Bytes,
    pub(super) expects: Expects,
}

/// What the client expects of the master's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// Nothing: the protocol has no reply, or nobody is left to read it.
    Nothing,
    /// The reply, however long it takes.
    Reply,
    /// To hear when all of these keys are there.
    Keys(Vec<Bytes>),
    /// To hear when everybody has come to the barrier.
    Barrier,
    /// Nothing any more: the wait was answered here, and a CANCEL_WAIT follows. The master answers that one, and this
    /// one only if it had done so before.
    Canceled,
    /// Nothing, but the master's word that the wait before it is over.
    Cancellation,
}

/// What waits for its turn on a connection.
#[derive(Debug)]
pub(super) enum Held {
    /// To be sent to the master.
    Operation(Operation),
    /// To be answered here, once everything before it is answered.
    Here(Reply),
}

impl Operation {
    /// None for what the master need not see.
    pub(super) fn of(request: Request) -> Option<Operation> {
        let bytes = request.to_bytes();
        let expects = match request {
            Request::Validate | Request::Ping { .. } | Request::CancelWait => return None,
            Request::Set { .. } | Request::Append { .. } | Request::MultiSet { .. } | Request::QueuePush { .. } => {
                Expects::Nothing
            }
            Request::Wait { keys } => Expects::Keys(keys),
            Request::Barrier { .. } => Expects::Barrier,
            Request::CompareSet { .. }
            | Request::Get { .. }
            | Request::Add { .. }
            | Request::Check { .. }
            | Request::GetNumKeys
            | Request::DeleteKey { .. }
            | Request::MultiGet { .. }
            | Request::QueuePop { .. }
            | Request::QueueLen { .. }
            | Request::ListKeys => Expects::Reply,
        };
        Some(Operation { request: bytes, expects })
    }

    /// Tells the master that the wait before it is over.
    pub(super) fn cancel_wait() -> Operation {
        Operation { request: Request::CancelWait.to_bytes(), expects: Expects::Cancellation }
    }

    /// Whether it changes something even if its client died before it heard so.
    ///
    /// A compare-and-set does not count: its client would have looked at the reply and gone on from there, and a node
    /// that tried to join a rendezvous and died must not join after its death.
    pub(super) fn outlives_its_client(&self) -> bool {
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

impl Expects {
    /// Whether the client cannot go on before it has heard something.
    pub(super) fn is_reply(&self) -> bool {
        match self {
            Expects::Reply | Expects::Keys(_) | Expects::Barrier => true,
            Expects::Nothing | Expects::Canceled | Expects::Cancellation => false,
        }
    }

    /// Whether a CANCEL_WAIT can end it.
    pub(super) fn is_wait(&self) -> bool {
        match self {
            Expects::Keys(_) | Expects::Barrier => true,
            Expects::Nothing | Expects::Reply | Expects::Canceled | Expects::Cancellation => false,
        }
    }
}

impl Held {
    pub(super) fn is_reply(&self) -> bool {
        match self {
            Held::Operation(operation) => operation.expects.is_reply(),
            Held::Here(_) => true,
        }
    }

    pub(super) fn is_wait(&self) -> bool {
        match self {
            Held::Operation(operation) => operation.expects.is_wait(),
            Held::Here(_) => false,
        }
    }
}
