//! Any arguments are an `elasticdl` command or a list of what is wrong with them, and a command's job can be made.
#![no_main]

use flexor_dialects::elasticdl::{Command, args_of_bytes, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(parsed) = parse(&args_of_bytes(bytes))
        && let Command::Train(options) | Command::Evaluate(options) | Command::Predict(options) = parsed.command
    {
        options.to_job();
    }
});
