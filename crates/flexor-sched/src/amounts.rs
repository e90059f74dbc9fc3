//! Resources as rows of integers, so that the planner compares and adds numbers instead of maps.
//!
//! Only resources that a planned pod requests are followed; others cannot decide anything. CPU counts in thousandths,
//! everything else in whole units, as the scheduler does it: requests are rounded up, capacities down.

use std::collections::BTreeSet;
use std::fmt;

use flexor_model::{Quantity, Resources};

use crate::{Node, SizedJob};

/// One number for each followed resource.
pub(crate) type Row = Box<[i64]>;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
/// The resource of which every pod takes one.
const PODS: &str = "pods";

/// Billionths in one thousandth.
const MILLI: i128 = 1_000_000;
/// Billionths in one.
const WHOLE: i128 = 1_000_000_000;
/// Larger amounts count as this one. Sums over the pods of a node cannot overflow.
const MOST: i64 = 1 << 50;

/// The followed resources.
#[derive(Debug)]
pub(crate) struct Units {
    names: Vec<String>,
}

impl Units {
    pub(crate) fn of(nodes: &[Node], jobs: &[SizedJob]) -> Self {
        let requested = jobs.iter().flat_map(|job| &job.roles).flat_map(|role| role.pod.requests.iter());
        let positive = requested.filter(|(_, quantity)| quantity.billionths() > 0).map(|(name, _)| name);
        let mut names: BTreeSet<&str> = positive.collect();
        if nodes.iter().any(|node| node.allocatable.get(PODS).is_some()) {
            names.insert(PODS);
        }
        Self { names: names.into_iter().map(str::to_owned).collect() }
    }

    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }

    /// What a pod takes.
    pub(crate) fn request(&self, requests: &Resources) -> Row {
        let one = |name: &String| {
            let asked = requests.get(name).map_or(0, |quantity| ceil_div(quantity, unit_of(name)));
            if name == PODS { 1 } else { asked }
        };
        self.names.iter().map(one).collect()
    }

    /// What a node has for pods.
    pub(crate) fn capacity(&self, allocatable: &Resources) -> Row {
        let one = |name: &String| match allocatable.get(name) {
            Some(quantity) => clamp(quantity.billionths().div_euclid(unit_of(name))),
            None if name == PODS => MOST,
            None => 0,
        };
        self.names.iter().map(one).collect()
    }

    /// The resource at a position of a row, for people.
    pub(crate) fn amount(&self, position: usize, value: i128) -> Amount {
        Amount { resource: self.names[position].clone(), value: i64::try_from(value).unwrap_or(i64::MAX) }
    }
}

fn unit_of(name: &str) -> i128 {
    if name == CPU { MILLI } else { WHOLE }
}

fn ceil_div(quantity: Quantity, unit: i128) -> i64 {
    let value = quantity.billionths();
    clamp(value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0))
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value.clamp(0, i128::from(MOST))).unwrap_or(MOST)
}

/// An amount of one resource: CPU in thousandths of a core, everything else in whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    pub resource: String,
    /// The number of units.
    pub value: i64,
}

impl Amount {
    /// The number alone, in the unit that [`Amount::unit`] names.
    pub fn number(&self) -> String {
        match self.resource.as_str() {
            CPU => decimal(self.value, 1000),
            MEMORY => decimal(self.value, 1 << 30),
            _ => self.value.to_string(),
        }
    }

    /// The unit in words.
    pub fn unit(&self) -> &str {
        match self.resource.as_str() {
            CPU if self.value == 1000 => "core",
            CPU => "cores",
            MEMORY => "GiB of memory",
            PODS if self.value == 1 => "pod",
            other => other,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.unit())
    }
}

/// The value in units, with at most two digits behind the point.
fn decimal(value: i64, unit: i64) -> String {
    let hundredths = i128::from(value) * 100 / i128::from(unit);
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(pairs: &[(&str, &str)]) -> Resources {
        pairs.iter().map(|(name, quantity)| (*name, quantity.parse().unwrap())).collect()
    }

    #[test]
    fn requests_are_rounded_up_and_capacities_down() {
        let units = Units { names: vec!["cpu".to_owned(), "memory".to_owned(), "pods".to_owned()] };
        let asked = units.request(&resources(&[("cpu", "100u"), ("memory", "100m")]));
        assert_eq!(*asked, [1, 1, 1]);
        let there = units.capacity(&resources(&[("cpu", "1999u"), ("memory", "1900m")]));
        assert_eq!(*there, [1, 1, MOST]);
        assert_eq!(*units.capacity(&resources(&[("pods", "110")])), [0, 0, 110]);
    }

    #[test]
    fn amounts_are_written_for_people() {
        let shown = |resource: &str, value| Amount { resource: resource.to_owned(), value }.to_string();
        assert_eq!(shown("cpu", 203_000), "203 cores");
        assert_eq!(shown("cpu", 1000), "1 core");
        assert_eq!(shown("cpu", 1500), "1.5 cores");
        assert_eq!(shown("memory", 5 << 29), "2.5 GiB of memory");
        assert_eq!(shown("nvidia.com/gpu", 2), "2 nvidia.com/gpu");
    }
}
