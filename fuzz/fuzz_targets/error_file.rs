//! Any bytes are an error file with a message or ignored, and a report that is written reads back as the same. Any bytes
//! are output in which a traceback is found or not, and its summary is one short line.
#![no_main]

use flexor_agent::processes::Traceback;
use flexor_agent::workers::ErrorReport;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(report) = ErrorReport::parse(bytes) {
        assert!(!report.summary().contains('\n'));
        assert_eq!(ErrorReport::parse(report.to_json().as_bytes()), Some(report));
    }
    if let Some(traceback) = Traceback::last_in(&String::from_utf8_lossy(bytes)) {
        let summary = traceback.to_string();
        assert!(!summary.contains('\n') && summary.len() < 8 << 10, "{summary}");
        assert!(traceback.text().len() < 1 << 20);
    }
});
