//! Any bytes are an error file with a message or ignored, and a report that is written reads back as the same.
#![no_main]

use flexor_agent::workers::ErrorReport;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(report) = ErrorReport::parse(bytes) {
        assert_eq!(ErrorReport::parse(report.to_json().as_bytes()), Some(report));
    }
});
