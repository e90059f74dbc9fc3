//! Builds the programs of the cluster tier before its tests run, so that no test's time holds the build.

use std::time::{Duration, Instant};

use flexor_testbed::{Tools, ToolsError};

use super::report::{Outcome, Verdict};

/// Makes sure that the tools are there. Where they cannot be had, the answer is a failure to report in place of the
/// tier; without Go the tests are still run, and each says itself that it was skipped.
pub(super) fn prepare() -> Result<(), Outcome> {
    let started = Instant::now();
    match Tools::ensure() {
        Ok(_) if started.elapsed() < Duration::from_secs(1) => Ok(()),
        Ok(_) => {
            println!("build cluster tools: {:.1} s", started.elapsed().as_secs_f64());
            Ok(())
        }
        Err(error @ ToolsError::GoMissing { .. }) => {
            println!("skipped: {error}");
            Ok(())
        }
        Err(error) => {
            let output = format!("{:#}", anyhow::Error::from(error));
            println!("---- FAILED to build the cluster's tools; its tests are not run\n{output}\n----");
            Err(Outcome {
                program: "xtask".to_owned(),
                test: "the cluster's tools can be built".to_owned(),
                verdict: Verdict::Failed,
                time: started.elapsed(),
                output,
            })
        }
    }
}
