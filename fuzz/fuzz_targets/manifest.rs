//! Any bytes are a manifest file or a report of what is wrong with it; never a panic, never a hang.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    flexor_dialects::manifest::check(bytes);
});
