//! Any JSON is a pod template whose variables and arguments a program can be given, or refused; a few bytes never stand for
//! gigabytes.
#![no_main]

use flexor_model::PodTemplate;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(template) = PodTemplate::new(json.clone(), "main") {
        assert_eq!(*template.json(), json, "a template is kept as it is");
        let _ = (template.requests(), template.grace(), template.main().command());
    }
});
