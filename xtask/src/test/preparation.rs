//! Fills the cache before the tests of a tier run, so that no test's time includes it.

use std::time::{Duration, Instant};

use anyhow::Error;
use flexor_testbed::{Dlrover, NodeTools, NodeToolsError, PythonError, Tools, ToolsError, Torch, images};

use super::report::{Outcome, Verdict};
use super::tier::Tier;

/// A build or installation that happens once.
struct Preparation {
    what: &'static str,
    make: fn() -> PreparationOutcome,
}

const CLUSTER_TOOLS: Preparation = Preparation { what: "the cluster's tools", make: built };
const TORCH: Preparation = Preparation { what: "torch", make: || installed(Torch::ensure()) };

/// How that went.
enum PreparationOutcome {
    Ready,
    /// The machine lacks a requirement. The tests still run, and each reports itself as skipped.
    Impossible(String),
    Failed(Error),
}

/// Prepares everything for `tier`. A failure is reported in place of the tier.
pub(super) fn prepare(tier: Tier) -> Result<(), Outcome> {
    let preparations: &[Preparation] = match tier {
        Tier::Unit | Tier::Local => &[],
        Tier::Peers => &[TORCH, Preparation { what: "DLRover", make: || installed(Dlrover::ensure()) }],
        Tier::Cluster => &[CLUSTER_TOOLS],
        Tier::Node => &[
            Preparation { what: "the nodes' tools", make: nodes_equipped },
            CLUSTER_TOOLS,
            TORCH,
            Preparation { what: "the parts of images", make: parts_made },
        ],
    };
    preparations.iter().try_for_each(Preparation::run)
}

impl Preparation {
    fn run(&self) -> Result<(), Outcome> {
        let what = self.what;
        let started = Instant::now();
        match (self.make)() {
            PreparationOutcome::Ready => {
                if started.elapsed() > Duration::from_secs(1) {
                    println!("prepare {what}: {:.1} s", started.elapsed().as_secs_f64());
                }
                Ok(())
            }
            PreparationOutcome::Impossible(reason) => {
                println!("prepare {what}: not possible, its tests are skipped: {reason}");
                Ok(())
            }
            PreparationOutcome::Failed(error) => {
                let output = format!("{error:#}");
                println!("---- FAILED to prepare {what}; its tests are not run\n{output}\n----");
                Err(Outcome {
                    program: "xtask".to_owned(),
                    test: format!("{what} can be had"),
                    verdict: Verdict::Failed,
                    time: started.elapsed(),
                    output,
                })
            }
        }
    }
}

fn built() -> PreparationOutcome {
    match Tools::ensure() {
        Ok(_) => PreparationOutcome::Ready,
        Err(error @ ToolsError::GoMissing { .. }) => PreparationOutcome::Impossible(error.to_string()),
        Err(error) => PreparationOutcome::Failed(error.into()),
    }
}

fn nodes_equipped() -> PreparationOutcome {
    match NodeTools::ensure() {
        Ok(_) => PreparationOutcome::Ready,
        Err(error) if error.is_unmet_requirement() => PreparationOutcome::Impossible(error.to_string()),
        Err(error) => PreparationOutcome::Failed(error.into()),
    }
}

fn parts_made() -> PreparationOutcome {
    let Err(error) = images::prepare() else { return PreparationOutcome::Ready };
    match error.downcast_ref::<NodeToolsError>() {
        Some(missing) if missing.is_unmet_requirement() => PreparationOutcome::Impossible(missing.to_string()),
        _ => PreparationOutcome::Failed(error),
    }
}

fn installed<T>(environment: Result<T, PythonError>) -> PreparationOutcome {
    match environment {
        Ok(_) => PreparationOutcome::Ready,
        Err(error @ PythonError::PythonMissing { .. }) => PreparationOutcome::Impossible(error.to_string()),
        Err(error) => PreparationOutcome::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn only_a_failed_preparation_stops_the_tier() {
        assert!(Preparation { what: "it", make: || PreparationOutcome::Ready }.run().is_ok());
        assert!(
            Preparation { what: "it", make: || PreparationOutcome::Impossible("needs Python".into()) }.run().is_ok()
        );
        let failed =
            Preparation { what: "it", make: || PreparationOutcome::Failed(anyhow!("disk full")) }.run().unwrap_err();
        assert_eq!((failed.test.as_str(), failed.output.as_str()), ("it can be had", "disk full"));
    }
}
