//! The custom resource definitions as an API server will get them.

use flexor_dialects::{crd_yaml, crds};
use serde_json::Value;

/// kubectl keeps the whole definition in an annotation, which can hold 256 KiB.
const LARGEST: usize = 200 * 1000;

#[test]
fn each_definition_fits_into_an_annotation() {
    for (_, crd) in crds() {
        let size = serde_json::to_string(&crd).unwrap().len().max(crd_yaml(&crd).len());
        assert!(size < LARGEST, "{:?} has {size} bytes", crd.metadata.name);
    }
}

#[test]
fn each_kind_has_a_short_name_of_its_own_and_the_columns_its_users_know() {
    let mut lines = Vec::new();
    for (dialect, crd) in crds() {
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap_or_default();
        let heading = |name: String, is_wide: bool| if is_wide { format!("[{name}]") } else { name };
        let columns = columns.into_iter().map(|column| heading(column.name.to_uppercase(), column.priority.is_some()));
        let columns: Vec<String> = columns.collect();
        let short = crd.spec.names.short_names.clone().unwrap_or_default().join(" ");
        lines.push(format!("{dialect} {} ({short}): {}", crd.spec.names.kind, columns.join(" ")));
    }
    assert_eq!(
        lines,
        [
            "dlrover ElasticJob (dej): PHASE AGE",
            "dlrover ScalePlan (dsp): OWNER PHASE AGE [REASON] [MESSAGE]",
            "torchelastic ElasticJob (tej): DESIRED MIN MAX PHASE AGE",
            "edl TrainingJob (tj): PHASE TRAINERS MIN MAX AGE",
        ]
    );
}

#[test]
fn a_pod_template_has_no_descriptions_and_keeps_what_it_does_not_know() {
    for (_, crd) in crds() {
        let json = serde_json::to_value(&crd).unwrap();
        for template in templates(&json) {
            assert!(!template["properties"].to_string().contains("\"description\""), "{:?}", crd.metadata.name);
            let containers = &template["properties"]["spec"]["properties"]["containers"];
            assert_eq!(containers["x-kubernetes-list-map-keys"], serde_json::json!(["name"]));
            for open in [template, &template["properties"]["spec"], &containers["items"]] {
                assert_eq!(open["x-kubernetes-preserve-unknown-fields"], true);
            }
        }
    }
}

fn templates(schema: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "template" {
                    found.push(value);
                } else {
                    found.extend(templates(value));
                }
            }
        }
        Value::Array(items) => found.extend(items.iter().flat_map(templates)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}
