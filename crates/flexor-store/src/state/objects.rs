//! The objects of a pickle that change while it is read: dicts, sets and nodes, each known by its number.
//!
//! Python's rules hold here: a node can be a key or a member only once it has its attributes, and it never changes
//! afterwards. How many objects there can be is bounded, whatever the pickle says.

use super::MAX_NODES;
use super::cursor::Cursor;
use super::node::NodeDesc;
use super::refused::Refused;
use super::value::Value;

/// One for the attributes of each node and of the state, one each for participants and heartbeats.
const MAX_DICTS: usize = MAX_NODES + 3;
/// The wait list and the redundancy list.
const MAX_SETS: usize = 2;

#[derive(Default)]
pub(super) struct Objects<'a> {
    pub(super) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    /// Numbers of nodes.
    pub(super) sets: Vec<Vec<usize>>,
    /// `None` until the attributes are there.
    pub(super) nodes: Vec<Option<NodeDesc>>,
}

impl<'a> Objects<'a> {
    pub(super) fn new_dict(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, Refused> {
        if self.dicts.len() == MAX_DICTS {
            return Err(cursor.too_much(MAX_DICTS, "dicts"));
        }
        self.dicts.push(Vec::new());
        Ok(Value::Dict(self.dicts.len() - 1))
    }

    pub(super) fn new_set(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, Refused> {
        if self.sets.len() == MAX_SETS {
            return Err(cursor.too_much(MAX_SETS, "sets"));
        }
        self.sets.push(Vec::new());
        Ok(Value::Set(self.sets.len() - 1))
    }

    pub(super) fn new_node(&mut self, cursor: &Cursor<'_>) -> Result<Value<'a>, Refused> {
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
    ) -> Result<(), Refused> {
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
    ) -> Result<(), Refused> {
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
