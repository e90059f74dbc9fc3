//! Resource strings: `cpu=2,memory=2048Mi,gpu=1`.
//!
//! The grammar is ElasticDL's, narrower than Kubernetes' in places (memory needs a suffix) and wider in others (`disk`,
//! `K`): what Kubernetes would refuse later is put into its words here, with a remark.

use std::collections::BTreeMap;

use flexor_model::{Quantity, Resources};

use super::value::{OptionValue, Refusal, Remark};
use crate::finding::{quoted, shortened};

/// A list of resources with their amounts; empty where the option was left empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceString(pub Resources);

const EXAMPLE: &str = "cpu=1,memory=4096Mi";
const NVIDIA_GPU: &str = "nvidia.com/gpu";
const NVIDIA: &str = "nvidia.com/";
const SIZE_SUFFIXES: [&str; 13] = ["E", "P", "T", "G", "M", "K", "k", "Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];

impl OptionValue for ResourceString {
    const EXPECTS: &'static str = "cpu=N,memory=SIZE[,gpu=N][,ephemeral-storage=SIZE]";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let mut found = BTreeMap::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, amount) = item.split_once('=').ok_or_else(|| {
                Refusal::invalid(format!("{} has no `=`", quoted(item)), format!("expected {EXAMPLE}"))
            })?;
            let (name, quantity) = resource(name.trim(), amount.trim(), remarks)?;
            if found.insert(name.clone(), quantity).is_some() {
                return Err(Refusal::invalid(format!("{} is given twice", quoted(&name)), "remove one of the two"));
            }
        }
        Ok(Self(found.into_iter().collect()))
    }

    fn write(&self) -> String {
        let item = |(name, quantity): (&str, Quantity)| match name {
            "cpu" => format!("cpu={}", cores(quantity)),
            "memory" | "ephemeral-storage" => format!("{name}={quantity}"),
            device => format!("{device}={}", quantity.ceil()),
        };
        self.0.iter().map(item).collect::<Vec<_>>().join(",")
    }
}

/// The name as Kubernetes has it, and the amount.
fn resource(name: &str, amount: &str, remarks: &mut Vec<Remark>) -> Result<(String, Quantity), Refusal> {
    match name {
        "cpu" => Ok(("cpu".to_owned(), cpu(amount)?)),
        "memory" | "ephemeral-storage" => Ok((name.to_owned(), size(name, amount, remarks)?)),
        "disk" => {
            remarks.push(Remark::replaced("`disk` is replaced by ephemeral-storage, its name in Kubernetes"));
            Ok(("ephemeral-storage".to_owned(), size(name, amount, remarks)?))
        }
        "gpu" => Ok((NVIDIA_GPU.to_owned(), devices(name, amount)?)),
        device if is_device(device) => Ok((device.to_owned(), devices(device, amount)?)),
        _ => Err(Refusal::invalid(
            format!("unknown resource {}", quoted(name)),
            "expected one of cpu, memory, disk, ephemeral-storage, gpu, VENDOR/gpu",
        )),
    }
}

/// `VENDOR/gpu` of any vendor, or any device of NVIDIA's.
fn is_device(name: &str) -> bool {
    let labels = |text: &str| {
        !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    match name.split_once('/') {
        Some((vendor, "gpu")) => labels(vendor),
        Some((_, device)) => name.starts_with(NVIDIA) && labels(device),
        None => false,
    }
}

/// Thousandths as `500m`, or cores as any decimal number.
fn cpu(amount: &str) -> Result<Quantity, Refusal> {
    let refusal = || {
        let message = format!("{} is not a number of cores", quoted(&format!("cpu={amount}")));
        Refusal::invalid(message, "expected cpu=2, cpu=0.5 or cpu=500m")
    };
    let well_formed = match amount.strip_suffix('m') {
        Some(thousandths) => is_positive_integer(thousandths),
        None => amount.parse::<f64>().is_ok_and(|cores| cores.is_finite() && cores >= 0.0),
    };
    if !well_formed {
        return Err(refusal());
    }
    bounded("cpu", amount.parse().map_err(|_| refusal())?)
}

/// A positive integer with one of the suffixes; a bare number is refused, because it would be bytes.
fn size(name: &str, amount: &str, remarks: &mut Vec<Remark>) -> Result<Quantity, Refusal> {
    let number_end = amount.find(|c: char| !c.is_ascii_digit()).unwrap_or(amount.len());
    let (number, suffix) = amount.split_at(number_end);
    if !is_positive_integer(number) || !SIZE_SUFFIXES.contains(&suffix) {
        let help = if suffix.is_empty() && is_positive_integer(number) {
            format!("add a unit, such as {name}={}Mi", shortened(number))
        } else {
            format!("expected an integer and a unit, such as {name}=4096Mi")
        };
        return Err(Refusal::invalid(format!("{} is not a size", quoted(&format!("{name}={amount}"))), help));
    }
    let suffix = if suffix == "K" {
        remarks.push(Remark::replaced(format!(
            "{} is read as {}k, units of 1000 bytes",
            quoted(amount),
            shortened(number)
        )));
        "k"
    } else {
        suffix
    };
    let quantity = format!("{number}{suffix}").parse().map_err(|error: flexor_model::QuantityError| {
        Refusal::invalid(error.to_string(), format!("expected a size such as {name}=4096Mi"))
    })?;
    bounded(name, quantity)
}

fn devices(name: &str, amount: &str) -> Result<Quantity, Refusal> {
    let count = amount.bytes().all(|b| b.is_ascii_digit()).then(|| amount.parse::<u32>().ok()).flatten();
    count.map(Quantity::whole).ok_or_else(|| {
        let message = format!("{} is not a number of devices", quoted(&format!("{name}={amount}")));
        Refusal::invalid(message, format!("expected an integer, such as {}=1", shortened(name)))
    })
}

fn is_positive_integer(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A quantity at the limit of what Kubernetes can hold was cut to it, and so is not what was written.
fn bounded(name: &str, quantity: Quantity) -> Result<Quantity, Refusal> {
    if quantity.ceil() == i64::MAX {
        return Err(Refusal::invalid(
            format!("{name} is larger than any Kubernetes quantity"),
            format!("expected an amount such as {EXAMPLE}"),
        ));
    }
    Ok(quantity)
}

/// Cores in ElasticDL's grammar, which knows no `k` and no `u`.
fn cores(quantity: Quantity) -> String {
    const ONE: i128 = 1_000_000_000;
    const THOUSANDTH: i128 = 1_000_000;
    let billionths = quantity.billionths();
    if billionths % ONE == 0 {
        (billionths / ONE).to_string()
    } else if billionths % THOUSANDTH == 0 {
        format!("{}m", billionths / THOUSANDTH)
    } else {
        format!("{}.{:09}", billionths / ONE, billionths % ONE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<ResourceString, Refusal> {
        ResourceString::read(text, &mut Vec::new())
    }

    #[test]
    fn names_and_amounts_are_kubernetes_own() {
        let resources = read(" cpu = 0.5 , memory=2048Mi,gpu=1,amd.com/gpu=2").unwrap();
        assert_eq!(resources.0.to_string(), "amd.com/gpu=2 cpu=500m memory=2Gi nvidia.com/gpu=1");
        assert_eq!(read("").unwrap(), ResourceString::default());
        assert!(read("nvidia.com/mig-1g.5gb=1").is_ok());
    }

    #[test]
    fn disk_and_large_k_are_understood_and_remarked_on() {
        let mut remarks = Vec::new();
        let resources = ResourceString::read("disk=1024Mi,memory=500K", &mut remarks).unwrap();
        assert_eq!(resources.0.to_string(), "ephemeral-storage=1Gi memory=500k");
        assert_eq!(remarks.len(), 2);
        assert_eq!(read(&resources.write()), Ok(resources));
    }

    #[test]
    fn what_elasticdl_refuses_is_refused_with_what_to_write() {
        for (text, said) in [
            ("cpu=1,cpu=2", "given twice"),
            ("gpu=1,nvidia.com/gpu=1", "given twice"),
            ("memory=1024", "memory=1024Mi"),
            ("memory=0Mi", "memory=4096Mi"),
            ("memory=4GB", "memory=4096Mi"),
            ("memory=1.5Gi", "an integer"),
            ("cpu=two", "cpu=500m"),
            ("cpu=05m", "cpu=500m"),
            ("cpu=-1", "cpu=500m"),
            ("cpu=nan", "cpu=500m"),
            ("gpu=0.5", "gpu=1"),
            ("gpu=", "gpu=1"),
            ("tpu=1", "expected one of cpu"),
            ("cpu", "has no `=`"),
            ("memory=9999999Ei", "larger than any Kubernetes quantity"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(format!("{} {}", refusal.message, refusal.help).contains(said), "{text}: {refusal:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_what_is_accepted_is_printed_back(
            text in "(((cpu|memory|gpu|disk|a.b/gpu|nvidia.com/x)=[0-9.em+-]{1,6}(m|Mi|Gi|K|E)?,?){0,3})|.{0,40}",
        ) {
            if let Ok(resources) = read(&text) {
                prop_assert_eq!(read(&resources.write()), Ok(resources));
            }
        }
    }
}
