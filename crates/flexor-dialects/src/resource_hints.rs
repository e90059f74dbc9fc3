//! Resources as a role's pods ask for them, and what about them is possible but hardly meant.

use flexor_model::{Quantity, Reason, Resources, is_accelerator};

use crate::{
    Finding,
    wire_resources::{ResourceList, ResourceRequirements},
};

/// For whom resources are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// For one pod, or one of its containers.
    Pod,
    /// For all pods of a job together.
    Job,
}

/// The quantities of a list, with a warning for each strange one. `path` is where the list stands.
pub(crate) fn read_list(
    list: Option<&ResourceList>,
    path: &str,
    asker: Asker,
    findings: &mut Vec<Finding>,
) -> Result<Resources, Finding> {
    let pairs = list.into_iter().flatten().map(|(name, written)| {
        let field = field_of(path, name);
        let quantity =
            written.parse().map_err(|error| Finding::new(Reason::InvalidValue, field.clone(), error.to_string()))?;
        findings.extend(strange(name, quantity, asker, &field));
        Ok((name.clone(), quantity))
    });
    pairs.collect()
}

/// Looks at what a container asks for and may not exceed.
pub(crate) fn look_at(
    resources: &ResourceRequirements,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Result<(), Finding> {
    let requests = read_list(resources.requests.as_ref(), &format!("{path}.requests"), Asker::Pod, findings)?;
    let limits = read_list(resources.limits.as_ref(), &format!("{path}.limits"), Asker::Pod, findings)?;
    for (name, limit) in limits.iter() {
        if let Some(request) = requests.get(name).filter(|request| *request > limit) {
            let message = format!("the limit {limit} is below the request {request}");
            let field = field_of(&format!("{path}.limits"), name);
            findings
                .push(Finding::new(Reason::SuspiciousQuantity, field, message).help("Kubernetes will refuse the pods"));
        }
    }
    Ok(())
}

pub(crate) fn field_of(path: &str, name: &str) -> String {
    if name.contains(['.', '/']) { format!("{path}[\"{name}\"]") } else { format!("{path}.{name}") }
}

/// A warning about a quantity that looks wrong for its resource.
fn strange(resource: &str, quantity: Quantity, asker: Asker, field: &str) -> Option<Finding> {
    let warn = |message: String, help: &str| Some(Finding::new(Reason::SuspiciousQuantity, field, message).help(help));
    match resource {
        "cpu" if quantity.is_binary() => {
            warn(format!("{quantity} is {} cores", quantity.ceil()), "cores are counted plainly: 4, or 500m for a half")
        }
        "cpu" if quantity.ceil() > 1024 && asker == Asker::Pod => {
            warn(format!("{quantity} is {} cores", quantity.ceil()), "thousandths of a core are written 500m")
        }
        "memory" | "ephemeral-storage" if quantity.billionths() != 0 && quantity.ceil() < 1 << 20 => warn(
            format!("{quantity} is less than a mebibyte"),
            "bytes are counted: write Mi or Gi, such as 512Mi (m means thousandths)",
        ),
        name if is_accelerator(name) && quantity.billionths() % 1_000_000_000 != 0 => {
            warn(format!("{quantity} is not a whole number"), "Kubernetes gives out accelerators whole")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hardly_meant_is_named() {
        let strange = |resource, text: &str| strange(resource, text.parse().unwrap(), Asker::Pod, "f").is_some();
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

    #[test]
    fn a_limit_below_its_request_is_named() {
        let list = |cpu: &str| Some(ResourceList::from([("cpu".to_owned(), cpu.into())]));
        let resources = ResourceRequirements { requests: list("1"), limits: list("500m"), ..Default::default() };
        let mut findings = Vec::new();
        look_at(&resources, "r", &mut findings).unwrap();
        assert_eq!(
            findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["r.limits.cpu: the limit 500m is below the request 1; Kubernetes will refuse the pods"]
        );
    }
}
