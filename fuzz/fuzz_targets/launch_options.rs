//! Any arguments and variables are a launch whose numbers are within their bounds, or a list of what is wrong with
//! them.
#![no_main]

use std::collections::BTreeMap;

use flexor_dialects::elasticdl::args_of_bytes;
use flexor_dialects::launch_options::{Asked, parse};
use libfuzzer_sys::fuzz_target;

/// The most processes of a node.
const MOST_PROCESSES: u32 = 32_768;

fuzz_target!(|bytes: &[u8]| {
    // Words in front that torchrun would read from the environment are its variables.
    let mut words = args_of_bytes(bytes);
    let is_variable = |word: &String| word.contains('=') && (word.starts_with("PET_") || word.starts_with("NODE_NUM"));
    let behind = words.iter().position(|word| !is_variable(word)).unwrap_or(words.len());
    let args = words.split_off(behind);
    let variables = words.iter().filter_map(|word| word.split_once('='));
    let variables: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    match parse(&args, &variables) {
        Err(findings) => assert!(findings.iter().any(|finding| finding.is_error())),
        Ok(parsed) => {
            assert!(!parsed.warnings.iter().any(|finding| finding.is_error()));
            let Asked::Launch(options) = parsed.asked else { return };
            assert!(1 <= options.nodes.min && options.nodes.min <= options.nodes.max);
            assert!(1 <= options.node_unit && options.node_unit <= options.nodes.max);
            // On a machine with two devices of each kind.
            let processes = options.processes.count(|_| 2).expect("there are some of each kind");
            assert!((1..=MOST_PROCESSES).contains(&processes), "{processes} processes");
        }
    }
});
