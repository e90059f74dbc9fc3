//! Quantities that are possible but hardly meant.

use flexor_model::{Quantity, Reason};

use crate::Finding;

/// A warning about a quantity that looks wrong for its resource.
pub(crate) fn strange(resource: &str, quantity: Quantity, field: &str) -> Option<Finding> {
    let warn = |message: String, help: &str| {
        Some(Finding::new(Reason::SuspiciousQuantity, field, message).help(help.to_owned()))
    };
    match resource {
        "cpu" if quantity.is_binary() => {
            warn(format!("{quantity} is {} cores", quantity.ceil()), "cores are counted plainly: 4, or 500m for a half")
        }
        "cpu" if quantity.ceil() > 1024 => {
            warn(format!("{quantity} is {} cores", quantity.ceil()), "thousandths of a core are written 500m")
        }
        "memory" | "ephemeral-storage" if quantity.billionths() != 0 && quantity.ceil() < 1 << 20 => warn(
            format!("{quantity} is less than a mebibyte"),
            "bytes are counted: write Mi or Gi, such as 512Mi (m means thousandths)",
        ),
        name if name.ends_with("gpu") && quantity.billionths() % 1_000_000_000 != 0 => {
            warn(format!("{quantity} is no whole number"), "Kubernetes gives out accelerators whole")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hardly_meant_is_named() {
        let strange = |resource, text: &str| strange(resource, text.parse().unwrap(), "f").is_some();
        for (resource, text) in
            [("cpu", "4Gi"), ("cpu", "4000"), ("memory", "128m"), ("memory", "4"), ("nvidia.com/gpu", "0.5")]
        {
            assert!(strange(resource, text), "{resource} {text}");
        }
        for (resource, text) in
            [("cpu", "500m"), ("cpu", "96"), ("memory", "4Gi"), ("memory", "0"), ("nvidia.com/gpu", "8")]
        {
            assert!(!strange(resource, text), "{resource} {text}");
        }
    }
}
