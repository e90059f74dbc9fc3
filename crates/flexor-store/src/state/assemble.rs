//! Converts the attribute dicts of a pickle into the types of this module: every attribute once and of its type.
//!
//! Attributes that no torch writes are refused; those that some torch does not write are optional.

use std::collections::{BTreeSet, HashSet};

use super::RendezvousState;
use super::error::{StateError, quoted};
use super::node::NodeDesc;
use super::objects::Objects;
use super::value::{NODE_CLASS, STATE_CLASS, Value};

/// Makes a node from its attributes.
pub(super) fn node(attributes: &[(Value<'_>, Value<'_>)]) -> Result<NodeDesc, StateError> {
    let [addr, pid, local_id] = named(NODE_CLASS, ["addr", "pid", "local_id"], attributes)?;
    Ok(NodeDesc {
        addr: addr.required()?.text()?.into(),
        pid: pid.required()?.int()?,
        local_id: local_id.required()?.int()?,
    })
}

/// Makes the state from its attributes, which are in the dict `attributes`.
pub(super) fn state(objects: &Objects<'_>, attributes: usize) -> Result<RendezvousState, StateError> {
    let names =
        ["round", "complete", "deadline", "closed", "participants", "wait_list", "redundancy_list", "last_heartbeats"];
    let [round, complete, deadline, closed, participants, wait_list, redundancy_list, last_heartbeats] =
        named(STATE_CLASS, names, &objects.dicts[attributes])?;
    let deadline = deadline.required()?;
    Ok(RendezvousState {
        round: round.required()?.int()?,
        complete: complete.required()?.bool()?,
        deadline: match deadline.value {
            Value::None => None,
            _ => Some(deadline.stamp("None or a datetime")?),
        },
        closed: closed.required()?.bool()?,
        participants: participants.required()?.by_node(objects, Attribute::int)?,
        wait_list: wait_list.required()?.nodes(objects)?,
        // torch 2.2 does not have this attribute; it has all others.
        redundancy_list: match redundancy_list.optional() {
            Some(redundancy_list) => redundancy_list.nodes(objects)?,
            None => BTreeSet::new(),
        },
        last_heartbeats: last_heartbeats.required()?.by_node(objects, |heartbeat| heartbeat.stamp("datetimes"))?,
    })
}

/// The values of the attributes `names`, in their order. Other attributes are refused.
fn named<'a, const N: usize>(
    class: &'static str,
    names: [&'static str; N],
    attributes: &[(Value<'a>, Value<'a>)],
) -> Result<[Named<'a>; N], StateError> {
    let mut values = [None; N];
    // The entry after the Nth is unknown or a duplicate at the latest, so a long dict costs no more than a short one.
    for (key, value) in attributes {
        let Value::Text(key) = key else {
            return Err(StateError::AttributeUnknown { class, attribute: key.kind().to_owned() });
        };
        let Some(place) = names.iter().position(|name| name == key) else {
            return Err(StateError::AttributeUnknown { class, attribute: quoted(key) });
        };
        if values[place].replace(*value).is_some() {
            return Err(StateError::AttributeTwice { class, attribute: names[place] });
        }
    }
    Ok(std::array::from_fn(|place| Named { class, name: names[place], value: values[place] }))
}

/// An attribute that may be missing.
#[derive(Clone, Copy)]
struct Named<'a> {
    class: &'static str,
    name: &'static str,
    value: Option<Value<'a>>,
}

impl<'a> Named<'a> {
    fn required(self) -> Result<Attribute<'a>, StateError> {
        self.optional().ok_or(StateError::AttributeMissing { class: self.class, attribute: self.name })
    }

    fn optional(self) -> Option<Attribute<'a>> {
        let Self { class, name, value } = self;
        value.map(|value| Attribute { class, name, value })
    }
}

/// A value with its class and attribute name.
#[derive(Clone, Copy)]
struct Attribute<'a> {
    class: &'static str,
    name: &'static str,
    value: Value<'a>,
}

impl<'a> Attribute<'a> {
    fn bool(self) -> Result<bool, StateError> {
        if let Value::Bool(value) = self.value { Ok(value) } else { Err(self.refused("a bool")) }
    }

    fn int(self) -> Result<u64, StateError> {
        if let Value::Int(value) = self.value { Ok(value) } else { Err(self.refused("an int")) }
    }

    fn text(self) -> Result<&'a str, StateError> {
        if let Value::Text(value) = self.value { Ok(value) } else { Err(self.refused("a str")) }
    }

    fn stamp(self, expected: &'static str) -> Result<super::Stamp, StateError> {
        if let Value::Datetime(value) = self.value { Ok(value) } else { Err(self.refused(expected)) }
    }

    /// A set of nodes.
    fn nodes(self, objects: &Objects<'_>) -> Result<BTreeSet<NodeDesc>, StateError> {
        let Value::Set(set) = self.value else {
            return Err(self.refused("a set"));
        };
        let mut nodes = BTreeSet::new();
        for node in objects.sets[set].iter().filter_map(|node| objects.nodes[*node].as_ref()) {
            if !nodes.insert(node.clone()) {
                return Err(self.node_twice(node));
            }
        }
        Ok(nodes)
    }

    /// A dict from nodes to values that `read` converts, in the order of the dict.
    fn by_node<T>(
        self,
        objects: &Objects<'a>,
        read: impl Fn(Attribute<'a>) -> Result<T, StateError>,
    ) -> Result<Vec<(NodeDesc, T)>, StateError> {
        let Value::Dict(dict) = self.value else {
            return Err(self.refused("a dict"));
        };
        let entries = &objects.dicts[dict];
        let mut seen = HashSet::with_capacity(entries.len());
        let mut items = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let node = if let Value::Node(node) = key { objects.nodes[*node].as_ref() } else { None };
            let Some(node) = node else {
                return Err(Attribute { value: *key, ..self }.refused("a dict of nodes"));
            };
            if !seen.insert(node) {
                return Err(self.node_twice(node));
            }
            items.push((node.clone(), read(Attribute { value: *value, ..self })?));
        }
        Ok(items)
    }

    fn refused(self, expected: &'static str) -> StateError {
        StateError::AttributeKind { class: self.class, attribute: self.name, expected, found: self.value.kind() }
    }

    fn node_twice(self, node: &NodeDesc) -> StateError {
        StateError::NodeTwice { node: quoted(&node.to_string()), attribute: self.name }
    }
}
