//! The custom resource definitions as an API server will get them.

use flexor_dialects::{DEFINITION_LABEL, crd_yaml, crds};
use kube::core::cel::{ValidationErrors, Validator, compile_schema};
use serde_json::{Value, json};

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
fn each_definition_is_marked_as_flexors() {
    let (key, value) = DEFINITION_LABEL;
    for (_, crd) in crds() {
        let labels = crd.metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{:?}", crd.metadata.name);
    }
}

#[test]
fn the_range_of_a_torchelastic_job_can_change_only_before_its_start_and_after_its_end() {
    let (_, crd) = crds().into_iter().find(|(dialect, _)| *dialect == "torchelastic").unwrap();
    let schema = crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
    let rules = compile_schema(&serde_json::to_value(schema).unwrap());
    let job = |phase: Option<&str>, range: [Option<i32>; 2], replicas: i32| {
        let worker = json!({"replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}]}}});
        let mut job = json!({"metadata": {"name": "j"}, "spec": {"replicaSpecs": {"Worker": worker}}});
        for (field, value) in ["minReplicas", "maxReplicas"].iter().zip(range) {
            if let Some(value) = value {
                job["spec"][field] = value.into();
            }
        }
        if let Some(phase) = phase {
            job["status"] = json!({"phase": phase});
        }
        job
    };
    let broken = |old: &Value, new: &Value| -> Vec<String> {
        let checked = Validator::new().validate_compiled(&rules, new, Some(old));
        let errors = checked.err().into_iter().flat_map(ValidationErrors::into_vec);
        errors.map(|error| error.field_path.trim_start_matches('.').to_owned()).collect()
    };
    let old = |phase| job(phase, [Some(1), Some(4)], 2);
    for phase in ["Pending", "Running", "Scaling"] {
        let old = old(Some(phase));
        assert_eq!(broken(&old, &job(Some(phase), [Some(2), Some(4)], 2)), ["spec.minReplicas"], "{phase}");
        assert_eq!(broken(&old, &job(Some(phase), [Some(1), None], 2)), ["spec.maxReplicas"], "{phase}");
        assert_eq!(broken(&old, &job(Some(phase), [Some(1), Some(4)], 4)), [""; 0], "{phase}: a size in the range");
        assert_eq!(broken(&old, &job(Some("Failed"), [Some(1), Some(4)], 2)), [""; 0], "{phase}: a new status");
    }
    for phase in [None, Some("Succeeded"), Some("Failed")] {
        assert_eq!(broken(&old(phase), &job(phase, [Some(2), Some(8)], 2)), [""; 0], "{phase:?}");
    }
    // Without a range the number of replicas is the range.
    let fixed = job(Some("Running"), [None, None], 2);
    assert_eq!(broken(&fixed, &job(Some("Running"), [None, None], 3)), ["spec.minReplicas", "spec.maxReplicas"]);
    assert_eq!(broken(&fixed, &job(Some("Running"), [Some(2), Some(2)], 2)), [""; 0], "the same in other words");
}

#[test]
fn a_pod_template_has_no_descriptions_and_keeps_what_it_does_not_know() {
    for (_, crd) in crds() {
        let json = serde_json::to_value(&crd).unwrap();
        for template in templates(&json) {
            assert!(!template["properties"].to_string().contains("\"description\""), "{:?}", crd.metadata.name);
            let containers = &template["properties"]["spec"]["properties"]["containers"];
            assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
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
