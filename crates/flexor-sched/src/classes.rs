//! Classes of pods: pods with equal requests and equal constraints are the same to the planner.
//!
//! The classes of elastic roles also measure waste: room on a node that none of them can use.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::amounts::{Row, Units};
use crate::cluster::Constraints;
use crate::index::{ClassIx, NodeIx};
use crate::ledger::Ledger;
use crate::{Node, PodShape};

/// Elastic classes beyond these few, the most common ones, do not count for waste.
const MOST_MEASURES: usize = 8;
/// The waste of a whole node, in fixed point.
const WHOLE_NODE: i128 = 1_000_000 << 32;

#[derive(Debug)]
pub(crate) struct Class {
    /// What one pod takes.
    pub need: Row,
    /// Which nodes accept it, room aside.
    accepted: Rc<[bool]>,
    /// The resource that such pods run out of first, and the weight of one unit of it.
    scarce: Option<(usize, i128)>,
}

impl Class {
    pub(crate) fn accepted_by(&self, node: NodeIx) -> bool {
        self.accepted[node.get()]
    }

    /// The part of the largest node that one pod takes of its scarcest resource, in fixed point.
    pub(crate) fn part_of_node(&self) -> i128 {
        self.scarce.map_or(0, |(position, weight)| i128::from(self.need[position]) * weight)
    }
}

/// All classes of a plan.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    classes: Vec<Class>,
    /// The classes that measure waste.
    measures: Vec<ClassIx>,
    /// For each node, how many of them it accepts.
    contest: Vec<u32>,
}

impl Classes {
    pub(crate) fn get(&self, class: ClassIx) -> &Class {
        &self.classes[class.get()]
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    /// How many elastic classes compete for the node. Pods with a choice leave contested nodes to those without.
    pub(crate) fn contest(&self, node: NodeIx) -> u32 {
        self.contest[node.get()]
    }

    /// The waste that a node with this room has: what is left when as many pods of the best class as fit are placed.
    pub(crate) fn unusable(&self, node: NodeIx, room: &[i64]) -> i64 {
        let left = |class: &ClassIx| {
            let class = self.get(*class);
            let (position, weight) = class.scarce?;
            let fits = if class.accepted_by(node) { fitting(room, &class.need) } else { 0 };
            let rest = room[position] - i64::from(fits) * class.need[position];
            Some(i64::try_from((i128::from(rest.max(0)) * weight) >> 32).unwrap_or(i64::MAX))
        };
        self.measures.iter().filter_map(left).min().unwrap_or(0)
    }
}

/// How many pods fit into the room.
pub(crate) fn fitting(room: &[i64], need: &[i64]) -> u32 {
    let limits = room.iter().zip(need).filter(|(_, need)| **need > 0).map(|(room, need)| (room / need).max(0));
    limits.min().map_or(u32::MAX, |least| u32::try_from(least).unwrap_or(u32::MAX))
}

/// Whether one pod fits into the room. A resource that it does not request may be overdrawn.
pub(crate) fn fits(room: &[i64], need: &[i64]) -> bool {
    room.iter().zip(need).all(|(room, need)| *need == 0 || room >= need)
}

/// Finds or makes the class of each pod.
pub(crate) struct Classifier<'a> {
    units: &'a Units,
    nodes: &'a [&'a Node],
    ledger: &'a Ledger,
    accepted: BTreeMap<Constraints, Rc<[bool]>>,
    known: BTreeMap<(Row, Constraints), ClassIx>,
    elastic: BTreeMap<ClassIx, usize>,
    classes: Classes,
}

impl<'a> Classifier<'a> {
    /// For nodes in the planner's order.
    pub(crate) fn new(units: &'a Units, nodes: &'a [&'a Node], ledger: &'a Ledger) -> Self {
        let (accepted, known, elastic) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { units, nodes, ledger, accepted, known, elastic, classes: Classes::default() }
    }

    pub(crate) fn class_of(&mut self, shape: &PodShape, elastic: bool) -> ClassIx {
        let constraints =
            Constraints { node_selector: shape.node_selector.clone(), tolerations: shape.tolerations.clone() };
        let key = (self.units.request(&shape.requests), constraints);
        let class = match self.known.get(&key) {
            Some(class) => *class,
            None => self.add(key),
        };
        if elastic {
            *self.elastic.entry(class).or_default() += 1;
        }
        class
    }

    fn add(&mut self, key: (Row, Constraints)) -> ClassIx {
        let class = ClassIx::at(self.classes.classes.len());
        let accepted = self.accepted.entry(key.1.clone()).or_insert_with_key(|constraints| {
            self.nodes.iter().map(|node| constraints.accept(node)).collect::<Vec<_>>().into()
        });
        let (need, accepted) = (key.0.clone(), Rc::clone(accepted));
        let scarce = self.scarce(&need);
        self.classes.classes.push(Class { need, accepted, scarce });
        self.known.insert(key, class);
        class
    }

    /// The resource of which a pod takes the largest part of the cluster.
    fn scarce(&self, need: &[i64]) -> Option<(usize, i128)> {
        let part = |position: usize| (i128::from(need[position]) << 40) / self.ledger.total(position).max(1);
        let position = (0..need.len()).filter(|p| need[*p] > 0).max_by_key(|p| (part(*p), std::cmp::Reverse(*p)))?;
        Some((position, WHOLE_NODE / i128::from(self.ledger.largest(position).max(1))))
    }

    pub(crate) fn finish(mut self) -> Classes {
        let mut elastic: Vec<(ClassIx, usize)> = self.elastic.into_iter().collect();
        elastic.sort_by_key(|(class, roles)| (std::cmp::Reverse(*roles), *class));
        self.classes.measures = elastic.into_iter().take(MOST_MEASURES).map(|(class, _)| class).collect();
        let classes = &self.classes;
        let accepting = |node| classes.measures.iter().filter(|class| classes.get(**class).accepted_by(node)).count();
        let contest = NodeIx::all(self.nodes.len()).map(|node| u32::try_from(accepting(node)).unwrap_or(u32::MAX));
        self.classes.contest = contest.collect();
        self.classes
    }
}
