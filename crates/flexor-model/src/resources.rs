//! What a pod asks for: a quantity for each named resource.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Quantities by resource name (`cpu`, `memory`, `nvidia.com/gpu`, …).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    /// Cores.
    pub fn cpu(&self) -> Option<Quantity> {
        self.get("cpu")
    }

    /// Bytes of memory.
    pub fn memory(&self) -> Option<Quantity> {
        self.get("memory")
    }

    /// The accelerator asked for, whatever its vendor calls it.
    pub fn gpu(&self) -> Option<(&str, Quantity)> {
        self.iter().find(|(name, _)| is_accelerator(name))
    }

    /// Both together, resource by resource.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, Quantity::plus)
    }

    /// The larger of both, resource by resource.
    #[must_use]
    pub fn or_more(&self, other: &Self) -> Self {
        self.combine(other, Quantity::max)
    }

    /// What the other says, and what only this one says.
    #[must_use]
    pub fn overlaid_by(&self, other: &Self) -> Self {
        self.combine(other, |_, other| other)
    }

    fn combine(&self, other: &Self, both: fn(Quantity, Quantity) -> Quantity) -> Self {
        let mut combined = self.0.clone();
        for (name, quantity) in &other.0 {
            combined.entry(name.clone()).and_modify(|mine| *mine = both(*mine, *quantity)).or_insert(*quantity);
        }
        Self(combined)
    }

    /// The quantity of one resource.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (name.as_str(), *quantity))
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a resource is an accelerator: its name ends in `gpu`.
pub fn is_accelerator(resource: &str) -> bool {
    resource.rsplit(['/', '-']).next() == Some("gpu")
}

impl<N: Into<String>> FromIterator<(N, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, quantity)| (name.into(), quantity)).collect())
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, quantity)) in self.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{name}={quantity}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_added_and_compared_one_by_one() {
        let list = |pairs: &[(&str, &str)]| -> Resources {
            pairs.iter().map(|(name, quantity)| (*name, quantity.parse().unwrap())).collect()
        };
        let (a, b) = (list(&[("cpu", "1"), ("memory", "1Gi")]), list(&[("cpu", "500m"), ("nvidia.com/gpu", "1")]));
        assert_eq!(a.plus(&b).to_string(), "cpu=1500m memory=1Gi nvidia.com/gpu=1");
        assert_eq!(a.or_more(&b).to_string(), "cpu=1 memory=1Gi nvidia.com/gpu=1");
        assert_eq!(a.overlaid_by(&b).to_string(), "cpu=500m memory=1Gi nvidia.com/gpu=1");
    }

    #[test]
    fn the_gpu_is_found_under_any_vendors_name() {
        for name in ["nvidia.com/gpu", "amd.com/gpu", "alpha.kubernetes.io/nvidia-gpu"] {
            let resources: Resources =
                [(name, "2".parse().unwrap()), ("cpu", "1".parse().unwrap())].into_iter().collect();
            assert_eq!(resources.gpu().map(|(found, n)| (found, n.to_string())), Some((name, "2".to_owned())));
        }
        let plain: Resources = [("cpu", "1".parse().unwrap())].into_iter().collect();
        assert_eq!(plain.gpu(), None);
    }
}
