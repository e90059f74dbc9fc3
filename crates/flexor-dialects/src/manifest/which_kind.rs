//! Of which kind a document is: one of ours, somebody else's, or a slip.

use flexor_model::Reason;

use super::{
    node::{Node, Value},
    path::FieldPath,
};
use crate::{Finding, finding::quoted, kind::Kind, suggest};

/// The kind of ours that a document is of; nothing, if it is somebody else's.
pub(super) fn of(node: &Node, api_version: &str, kind: &str) -> Result<Option<&'static Kind>, Finding> {
    if api_version.is_empty() || kind.is_empty() {
        return Err(no_object(node, if api_version.is_empty() { "apiVersion" } else { "kind" }));
    }
    let at = |field: &str| Some(node.locate(&FieldPath::default().key(field)));
    let (group, version) = api_version.split_once('/').unwrap_or((api_version, ""));
    let of_group: Vec<&'static Kind> = crate::kinds().filter(|known| known.group == group).collect();
    if of_group.is_empty() {
        return match slip_in_group(api_version, group, version, kind) {
            Some(finding) => Err(finding.at(at("apiVersion"))),
            None => Ok(None),
        };
    }
    let Some(known) = of_group.iter().find(|known| known.kind == kind) else {
        let message = format!("{group} has no kind {}", quoted(kind));
        let help = suggest::instead(kind, of_group.iter().map(|known| known.kind));
        return Err(Finding::new(Reason::UnknownKind, "kind", message).help(help).at(at("kind")));
    };
    if known.version != version {
        let message = format!("{kind} has no version {}", quoted(version));
        let finding = Finding::new(Reason::UnknownVersion, "apiVersion", message);
        return Err(finding.help(format!("write {group}/{}", known.version)).at(at("apiVersion")));
    }
    Ok(Some(known))
}

/// A kind called like one of ours whose group is missing or nearly ours. Other systems may have a kind of that name.
fn slip_in_group(api_version: &str, group: &str, version: &str, kind: &str) -> Option<Finding> {
    let namesakes: Vec<&Kind> = crate::kinds().filter(|known| known.kind.eq_ignore_ascii_case(kind)).collect();
    if namesakes.is_empty() {
        return None;
    }
    let close = suggest::closest(group, namesakes.iter().map(|known| known.group)).is_some();
    let alike = namesakes.iter().any(|known| group.split('.').take(2).eq(known.group.split('.').take(2)));
    if !(version.is_empty() || close || alike) {
        return None;
    }
    let wanted: Vec<String> =
        namesakes.iter().map(|known| format!("{}/{} ({})", known.group, known.version, known.dialect)).collect();
    let message = format!("there is no {} in {}", quoted(kind), quoted(api_version));
    let finding = Finding::new(Reason::UnknownVersion, "apiVersion", message);
    Some(finding.help(format!("write {}", wanted.join(" or "))))
}

/// Why a document is no Kubernetes object, where `missing` could not be read.
fn no_object(node: &Node, missing: &str) -> Finding {
    let Value::Map(entries) = &node.value else {
        let message = format!("the document is {}, not a Kubernetes object", node.value.describe());
        return Finding::new(Reason::NotAnObject, "", message).at(Some(node.at));
    };
    if let Some(there) = node.get(missing) {
        let message = format!("must be a string, got {}", there.value.describe());
        return Finding::new(Reason::NotAnObject, missing, message).at(Some(there.at));
    }
    let help = match suggest::closest(missing, entries.iter().map(|entry| entry.key.as_str())) {
        Some(slip) => format!("did you mean `{missing}:` by {}?", quoted(slip)),
        None => format!("add `{missing}:`"),
    };
    let message = "is missing, so this is not a Kubernetes object";
    Finding::new(Reason::NotAnObject, missing, message).help(help).at(Some(node.at))
}
