//! Any text is a model that a server can lay out, or refused; never a panic, never memory for what is not there.
#![no_main]

use flexor_ps::layout::Layout;
use flexor_ps::spec::ModelSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(spec) = ModelSpec::parse(text) {
        let written = serde_json::to_string(&spec).expect("a model can be written");
        assert_eq!(ModelSpec::parse(&written).as_ref(), Ok(&spec));
        Layout::new(spec).expect("what was accepted can be laid out");
    }
});
