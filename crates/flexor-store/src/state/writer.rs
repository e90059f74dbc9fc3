//! Writes a rendezvous state as a pickle of protocol 4, in two pieces so that readers can share the first.
//!
//! The instructions are those that Python writes for the same object. Values that occur repeatedly (classes, attribute
//! names, UTC, nodes) are memoized at their first use and recalled by index later. There are no frames: they only help
//! readers of files.

use std::collections::HashMap;

use super::node::NodeDesc;
use super::opcode::*;
use super::stamp::{Stamp, Zone};
use super::value::{DATETIME, NODE_CLASS, STATE_CLASS, TIMEDELTA, TIMEZONE, TORCH_MODULE};

/// Values that every state uses repeatedly.
#[derive(Clone, Copy)]
enum Recurring {
    TorchModule,
    NodeClass,
    Addr,
    Pid,
    LocalId,
    DatetimeText,
    DatetimeClass,
    Utc,
}

/// The memo of a pickle.
#[derive(Clone, Copy, Default)]
pub(super) struct Memo {
    len: u32,
    recurring: [Option<u32>; 8],
}

/// A pickle that is being written.
#[derive(Default)]
pub(super) struct Writer<'a> {
    out: Vec<u8>,
    memo: Memo,
    nodes: HashMap<&'a NodeDesc, u32>,
    /// The memo indices of nodes in an earlier piece of the same pickle.
    earlier: Option<&'a HashMap<NodeDesc, u32>>,
}

impl<'a> Writer<'a> {
    /// Continues a pickle whose earlier piece has left `memo` and `nodes`.
    pub(super) fn after(memo: Memo, nodes: &'a HashMap<NodeDesc, u32>) -> Self {
        Self { memo, earlier: Some(nodes), ..Self::default() }
    }

    /// Writes the first piece: the state up to and including its participants.
    pub(super) fn open(
        &mut self,
        round: u64,
        complete: bool,
        deadline: Option<Stamp>,
        closed: bool,
        participants: &'a [(NodeDesc, u64)],
    ) {
        self.out.reserve(256 + 80 * participants.len());
        self.ops(&[PROTO, 4]);
        self.recurring(Recurring::TorchModule);
        self.text(STATE_CLASS);
        self.ops(&[STACK_GLOBAL, EMPTY_TUPLE, NEWOBJ, EMPTY_DICT, MARK]);
        self.text("round");
        self.int(round);
        self.text("complete");
        self.bool(complete);
        self.text("deadline");
        match deadline {
            Some(deadline) => self.stamp(deadline),
            None => self.ops(&[NONE]),
        }
        self.text("closed");
        self.bool(closed);
        self.text("participants");
        self.ops(&[EMPTY_DICT, MARK]);
        for (node, rank) in participants {
            self.node(node);
            self.int(*rank);
        }
        self.ops(&[SETITEMS]);
    }

    /// Pads the first piece to a multiple of three bytes, so that its base64 needs no padding. Only to be called after
    /// [`open`](Self::open): it memoizes the participants once or twice more, which has no effect.
    pub(super) fn pad(&mut self) {
        while !self.out.len().is_multiple_of(3) {
            self.memoize();
        }
    }

    /// Writes the second piece: the rest.
    pub(super) fn close(
        &mut self,
        wait_list: impl IntoIterator<Item = &'a NodeDesc>,
        redundancy_list: impl IntoIterator<Item = &'a NodeDesc>,
        last_heartbeats: &'a [(NodeDesc, Stamp)],
    ) {
        self.text("wait_list");
        self.set(wait_list);
        self.text("redundancy_list");
        self.set(redundancy_list);
        self.text("last_heartbeats");
        self.ops(&[EMPTY_DICT, MARK]);
        for (node, heartbeat) in last_heartbeats {
            self.node(node);
            self.stamp(*heartbeat);
        }
        self.ops(&[SETITEMS, SETITEMS, BUILD, STOP]);
    }

    /// The bytes of the pickle.
    pub(super) fn pickle(&self) -> &[u8] {
        &self.out
    }

    /// The memo and the nodes for a later piece.
    pub(super) fn into_memo(self) -> (Memo, HashMap<NodeDesc, u32>) {
        (self.memo, self.nodes.into_iter().map(|(node, index)| (node.clone(), index)).collect())
    }

    fn set(&mut self, nodes: impl IntoIterator<Item = &'a NodeDesc>) {
        self.ops(&[EMPTY_SET, MARK]);
        nodes.into_iter().for_each(|node| self.node(node));
        self.ops(&[ADDITEMS]);
    }

    fn node(&mut self, node: &'a NodeDesc) {
        let earlier = self.earlier.and_then(|nodes| nodes.get(node));
        if let Some(index) = earlier.or_else(|| self.nodes.get(node)) {
            return self.recall(*index);
        }
        self.recurring(Recurring::NodeClass);
        self.ops(&[EMPTY_TUPLE, NEWOBJ]);
        let index = self.memoize();
        self.nodes.insert(node, index);
        self.ops(&[EMPTY_DICT, MARK]);
        self.recurring(Recurring::Addr);
        self.text(&node.addr);
        self.recurring(Recurring::Pid);
        self.int(node.pid);
        self.recurring(Recurring::LocalId);
        self.int(node.local_id);
        self.ops(&[SETITEMS, BUILD]);
    }

    fn stamp(&mut self, stamp: Stamp) {
        self.recurring(Recurring::DatetimeClass);
        self.ops(&[SHORT_BINBYTES, 10]);
        self.ops(&stamp.to_pickled());
        match stamp.zone() {
            Zone::Utc => {
                self.recurring(Recurring::Utc);
                self.ops(&[TUPLE2, REDUCE]);
            }
            Zone::Unsaid => self.ops(&[TUPLE1, REDUCE]),
        }
    }

    fn recurring(&mut self, thing: Recurring) {
        if let Some(index) = self.memo.recurring[thing as usize] {
            return self.recall(index);
        }
        match thing {
            Recurring::TorchModule => self.text(TORCH_MODULE),
            Recurring::NodeClass => self.class(Recurring::TorchModule, NODE_CLASS),
            Recurring::Addr => self.text("addr"),
            Recurring::Pid => self.text("pid"),
            Recurring::LocalId => self.text("local_id"),
            Recurring::DatetimeText => self.text(DATETIME),
            Recurring::DatetimeClass => self.class(Recurring::DatetimeText, DATETIME),
            Recurring::Utc => {
                self.class(Recurring::DatetimeText, TIMEZONE);
                self.class(Recurring::DatetimeText, TIMEDELTA);
                (0..3).for_each(|_| self.int(0));
                self.ops(&[TUPLE3, REDUCE, TUPLE1, REDUCE]);
            }
        }
        self.memo.recurring[thing as usize] = Some(self.memoize());
    }

    fn class(&mut self, module: Recurring, name: &str) {
        self.recurring(module);
        self.text(name);
        self.ops(&[STACK_GLOBAL]);
    }

    /// Memoizes the top of the reader's stack. Returns its index.
    fn memoize(&mut self) -> u32 {
        self.ops(&[MEMOIZE]);
        self.memo.len += 1;
        self.memo.len - 1
    }

    fn recall(&mut self, index: u32) {
        match u8::try_from(index) {
            Ok(index) => self.ops(&[BINGET, index]),
            Err(_) => {
                self.ops(&[LONG_BINGET]);
                self.ops(&index.to_le_bytes());
            }
        }
    }

    fn bool(&mut self, value: bool) {
        self.ops(&[if value { NEWTRUE } else { NEWFALSE }]);
    }

    fn int(&mut self, value: u64) {
        if let Ok(value) = u8::try_from(value) {
            self.ops(&[BININT1, value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.ops(&[BININT2]);
            self.ops(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.ops(&[BININT]);
            self.ops(&value.to_le_bytes());
        } else {
            // The ninth byte keeps the sign bit clear.
            self.ops(&[LONG1, 9]);
            self.ops(&value.to_le_bytes());
            self.ops(&[0]);
        }
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(length) => self.ops(&[SHORT_BINUNICODE, length]),
            Err(_) => {
                self.ops(&[BINUNICODE]);
                // Addresses are host names and never reach the field's 4 GiB.
                self.ops(&(text.len() as u32).to_le_bytes());
            }
        }
        self.ops(text.as_bytes());
    }

    fn ops(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}
