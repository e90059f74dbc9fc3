//! The mutable objects of a pickle: dicts, sets and nodes, each identified by its index.
//!
//! Python's rules apply: a node can be a key or a member only after it has its attributes, and never changes afterwards.
//! The number of objects is bounded for any pickle.

use super::MAX_NODES;
use super::cursor::Cursor;
use super::error::StateError;
use super::node::NodeDesc;
use super::value::Value;

/// The most dicts: one for the attributes of each node and of the state, one each for participants and heartbeats.
const MAX_DICTS: usize = MAX_NODES + 3;
/// The most sets: the wait list and the redundancy list.
const MAX_SETS: usize = 2;

#[derive(Default)]
pub(super) struct Objects<'a> {
    pub(super) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    /// Indices of nodes.
    pub(super) sets: Vec<Vec<usize>>,
    /// `None` until the attributes are set.
    pub(super) nodes: Vec<Option<NodeDesc>>,
}

impl<'a> Objects<'a> {
    pub(super) fn new_dict(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, StateError> {
        if self.dicts.len() == MAX_DICTS {
            return Err(cursor.too_much(MAX_DICTS, "dicts"));
        }
        self.dicts.push(Vec::new());
        Ok(Value::Dict(self.dicts.len() - 1))
    }

    pub(super) fn new_set(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, StateError> {
        if self.sets.len() == MAX_SETS {
            return Err(cursor.too_much(MAX_SETS, "sets"));
        }
        self.sets.push(Vec::new());
        Ok(Value::Set(self.sets.len() - 1))
    }

    pub(super) fn new_node(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, StateError> {
        if self.nodes.len() == MAX_NODES {
            return Err(cursor.too_many_nodes());
        }
        self.nodes.push(None);
        Ok(Value::Node(self.nodes.len() - 1))
    }

    /// Adds `items`, a key and a value in turn, to the dict `target`.
    pub(super) fn set_items(
        &mut self,
        cursor: &Cursor<'_>,
        target: Value<'a>,
        items: &[Value<'a>],
    ) -> Result<(), StateError> {
        let Value::Dict(dict) = target else {
            return Err(cursor.refused_operand("a dict", target.kind()));
        };
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(cursor.refused_operand("keys with a value each", "a key without one"));
        };
        let entries = &mut self.dicts[dict];
        if pairs.len() > MAX_NODES - entries.len() {
            return Err(cursor.too_much(MAX_NODES, "items of a dict"));
        }
        for &[key, value] in pairs {
            match key {
                Value::Text(_) => {}
                Value::Node(node) if self.nodes[node].is_some() => {}
                Value::Node(_) => return Err(cursor.refused_operand("a finished _NodeDesc", "one without attributes")),
                _ => return Err(cursor.refused_operand("a str or a _NodeDesc as a key", key.kind())),
            }
            entries.push((key, value));
        }
        Ok(())
    }

    /// Adds the nodes `items` to the set `target`.
    pub(super) fn add_items(
        &mut self,
        cursor: &Cursor<'_>,
        target: Value<'a>,
        items: &[Value<'a>],
    ) -> Result<(), StateError> {
        let Value::Set(set) = target else {
            return Err(cursor.refused_operand("a set", target.kind()));
        };
        let members = &mut self.sets[set];
        if items.len() > MAX_NODES - members.len() {
            return Err(cursor.too_much(MAX_NODES, "members of a set"));
        }
        for &item in items {
            match item {
                Value::Node(node) if self.nodes[node].is_some() => members.push(node),
                Value::Node(_) => return Err(cursor.refused_operand("a finished _NodeDesc", "one without attributes")),
                _ => return Err(cursor.refused_operand("a _NodeDesc as a member", item.kind())),
            }
        }
        Ok(())
    }
}
