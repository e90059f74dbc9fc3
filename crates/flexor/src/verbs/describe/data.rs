//! ConfigMaps, Secrets and PriorityClasses as kubectl describes them: of a Secret only how much there is.

use serde_json::Value;

use super::super::cells;
use super::tree::{self, Text};
use crate::output::on_one_line;

/// A ConfigMap, with all that is in it.
pub fn config_map(text: &mut Text, object: &Value) {
    head(text, object);
    ["", "Data", "===="].iter().for_each(|line| text.line(line));
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        text.line(&format!("{}:", on_one_line(key)));
        text.line("----");
        value.as_str().unwrap_or_default().lines().for_each(|line| text.line(&on_one_line(line)));
        text.line("");
    }
    let binary: Vec<String> =
        object["binaryData"].as_object().into_iter().flatten().map(|(key, value)| size(key, value)).collect();
    if !binary.is_empty() {
        ["", "BinaryData", "===="].iter().for_each(|line| text.line(line));
        binary.iter().for_each(|line| text.line(line));
    }
}

/// A Secret, without anything that is in it.
pub fn secret(text: &mut Text, object: &Value) {
    head(text, object);
    text.line("");
    text.pairs(&[("Type", cells::text(&object["type"]))]);
    ["", "Data", "===="].iter().for_each(|line| text.line(line));
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        text.line(&size(key, value));
    }
}

/// A PriorityClass.
pub fn priority_class(text: &mut Text, object: &Value) {
    text.pairs(&[
        ("Name", cells::text(&object["metadata"]["name"])),
        ("Value", cells::text(&object["value"])),
        ("GlobalDefault", cells::text(&object["globalDefault"])),
        ("PreemptionPolicy", cells::text(&object["preemptionPolicy"])),
        ("Description", cells::text(&object["description"])),
        ("Annotations", tree::labels(&object["metadata"]["annotations"])),
    ]);
}

fn head(text: &mut Text, object: &Value) {
    let metadata = &object["metadata"];
    text.pairs(&[
        ("Name", cells::text(&metadata["name"])),
        ("Namespace", cells::text(&metadata["namespace"])),
        ("Labels", tree::labels(&metadata["labels"])),
        ("Annotations", tree::labels(&metadata["annotations"])),
    ]);
}

/// How many bytes a base64 text stands for.
fn size(key: &str, value: &Value) -> String {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    format!("{}:  {} bytes", on_one_line(key), text.len() * 3 / 4)
}
