//! The checked-in inputs of the fuzz targets, each held to what its target claims (`fuzz/fuzz_targets/`).

use std::{collections::BTreeMap, path::PathBuf};

use flexor_dialects::{
    elasticdl::{self, Command},
    launch_options::{self, Asked},
    manifest,
};
use flexor_model::Quantity;

/// Calls `claim` with every input of a target.
fn replay(target: &str, claim: impl Fn(&[u8])) {
    let folder = crate::manifest_files::root().join("fuzz/corpus").join(target);
    let mut inputs: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for input in inputs {
        // Seen only when the claim does not hold.
        println!("{}", input.display());
        claim(&std::fs::read(&input).unwrap());
    }
}

#[test]
fn any_bytes_are_a_manifest_file_or_a_report() {
    replay("manifest", |bytes| {
        let report = manifest::check(bytes);
        assert!(report.unreadable.is_none() || report.documents.is_empty());
    });
}

#[test]
fn a_printed_quantity_reads_back_as_the_same_number() {
    replay("quantity", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(quantity) = text.parse::<Quantity>() {
            assert_eq!(quantity.to_string().parse(), Ok(quantity), "{text}");
        }
    });
}

#[test]
fn any_arguments_are_a_command_or_a_list_of_what_is_wrong() {
    replay("elasticdl", |bytes| match elasticdl::parse(&elasticdl::args_of_bytes(bytes)) {
        Ok(parsed) => {
            if let Command::Train(options) | Command::Evaluate(options) | Command::Predict(options) = parsed.command {
                assert_eq!(options.to_job(), options.to_job());
            }
        }
        Err(findings) => assert!(!findings.is_empty()),
    });
}

#[test]
fn any_arguments_are_a_launch_within_bounds_or_a_list_of_what_is_wrong() {
    replay("launch_options", |bytes| {
        let mut words = elasticdl::args_of_bytes(bytes);
        let is_variable =
            |word: &String| word.contains('=') && ["PET_", "NODE_NUM"].iter().any(|name| word.starts_with(name));
        let behind = words.iter().position(|word| !is_variable(word)).unwrap_or(words.len());
        let args = words.split_off(behind);
        let variables = words.iter().filter_map(|word| word.split_once('='));
        let variables: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        match launch_options::parse(&args, &variables) {
            Err(findings) => assert!(findings.iter().any(flexor_dialects::Finding::is_error)),
            Ok(parsed) => {
                assert!(!parsed.warnings.iter().any(flexor_dialects::Finding::is_error));
                if let Asked::Launch(options) = parsed.asked {
                    assert!(1 <= options.nodes.min && options.nodes.min <= options.nodes.max);
                    assert!(1 <= options.node_unit && options.node_unit <= options.nodes.max);
                    assert!((1..=32_768).contains(&options.processes.count(|_| 2).unwrap()));
                }
            }
        }
    });
}
