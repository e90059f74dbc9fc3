//! The `flexor` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flexor::main()
}
