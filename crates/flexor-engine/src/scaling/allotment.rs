//! CPU and memory as whole numbers, so that sums are exact and the same input gives the same plan.

use flexor_model::{Quantity, Resources};

/// Billionths in one thousandth.
const MILLI: i128 = 1_000_000;
pub(super) const MEBIBYTE: u64 = 1 << 20;

/// What a pod requests and is limited to. Zero is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allotment {
    /// CPU in thousandths of a core.
    pub millicores: u64,
    /// Memory.
    pub bytes: u64,
}

/// The most of each resource; a resource without a value is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// CPU in thousandths of a core.
    pub millicores: Option<u64>,
    /// Memory.
    pub bytes: Option<u64>,
}

impl Allotment {
    /// CPU in cores.
    #[expect(clippy::cast_precision_loss, reason = "a count of cores has few digits")]
    pub fn cores(self) -> f64 {
        self.millicores as f64 / 1000.0
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.plus_times(other, 1)
    }

    /// With `count` pods more of another allotment.
    #[must_use]
    pub fn plus_times(self, pod: Self, count: u32) -> Self {
        let sum = |mine: u64, each: u64| mine.saturating_add(each.saturating_mul(count.into()));
        Self { millicores: sum(self.millicores, pod.millicores), bytes: sum(self.bytes, pod.bytes) }
    }

    /// The larger of both, resource by resource.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        Self { millicores: self.millicores.max(other.millicores), bytes: self.bytes.max(other.bytes) }
    }

    /// As a pod template writes it, without what is unknown.
    pub fn resources(self) -> Resources {
        let quantity = |text: String| text.parse::<Quantity>().ok();
        let cpu = quantity(format!("{}m", self.millicores)).filter(|_| self.millicores > 0);
        let memory = match self.bytes {
            0 => None,
            bytes if bytes % MEBIBYTE == 0 => quantity(format!("{}Mi", bytes / MEBIBYTE)),
            bytes => quantity(bytes.to_string()),
        };
        [("cpu", cpu), ("memory", memory)].into_iter().filter_map(|(name, of)| Some((name, of?))).collect()
    }
}

impl From<&Resources> for Allotment {
    /// Memory is rounded up to whole bytes, CPU to thousandths.
    fn from(resources: &Resources) -> Self {
        let Ceiling { millicores, bytes } = resources.into();
        Self { millicores: millicores.unwrap_or(0), bytes: bytes.unwrap_or(0) }
    }
}

impl From<&Resources> for Ceiling {
    fn from(resources: &Resources) -> Self {
        let whole = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
        let millicores = |cpu: Quantity| whole((cpu.billionths() + MILLI - 1).div_euclid(MILLI));
        Self {
            millicores: resources.cpu().map(millicores),
            bytes: resources.memory().map(|memory| whole(memory.ceil().into())),
        }
    }
}

impl Ceiling {
    /// Whether nothing exceeds it.
    pub fn fits(self, total: Allotment) -> bool {
        self.millicores.is_none_or(|most| total.millicores <= most) && self.bytes.is_none_or(|most| total.bytes <= most)
    }

    /// The lower of both, resource by resource.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self { millicores: lower(self.millicores, other.millicores), bytes: lower(self.bytes, other.bytes) }
    }
}

impl From<Allotment> for Ceiling {
    fn from(total: Allotment) -> Self {
        Self { millicores: Some(total.millicores), bytes: Some(total.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allotment_is_written_as_people_write_it_and_read_back() {
        let pod = Allotment { millicores: 1500, bytes: 6000 * MEBIBYTE };
        assert_eq!(pod.resources().to_string(), "cpu=1500m memory=6000Mi");
        assert_eq!(Allotment::from(&pod.resources()), pod);
        let no_memory = Allotment { millicores: 300, bytes: 0 };
        assert_eq!(no_memory.resources().to_string(), "cpu=300m");
        assert_eq!(Ceiling::from(&no_memory.resources()), Ceiling { millicores: Some(300), bytes: None });
    }

    #[test]
    fn a_ceiling_binds_only_what_it_names() {
        let ceiling = Ceiling { millicores: Some(2000), bytes: None };
        assert!(ceiling.fits(Allotment { millicores: 2000, bytes: u64::MAX }));
        assert!(!ceiling.fits(Allotment { millicores: 2001, bytes: 0 }));
        let both = ceiling.and(Ceiling { millicores: Some(1000), bytes: Some(5) });
        assert_eq!(both, Ceiling { millicores: Some(1000), bytes: Some(5) });
    }
}
