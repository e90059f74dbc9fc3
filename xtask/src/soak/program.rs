//! The jobs of the soak: examples for users, made longer, and what must be true after they succeed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;
use serde_json::Value;

use super::storm;

/// The records of the job that is a shell script: 300 batches, each 0.2 s of work, for four processes.
const RECORDS: u64 = 3000;
/// One epoch of 6000 digits in batches of 96.
const STEPS: &str = "63";
/// The records of the job with parameter servers, as its example has them.
const CLICKS: u64 = 600_000;
/// How far its AUC may be from the best that there could be.
const NEAR_THE_BEST: f64 = 0.01;
/// The same where it learns less.
const NEAR_THE_BEST_OF_LESS: f64 = 0.02;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// `examples/any-program`: a shell script that leases records.
    Shell,
    /// `examples/torch-mnist/dlrover.yaml`: stock torchrun in a DLRover job.
    Dlrover,
    /// `examples/torch-mnist/torchelastic.yaml`: stock torchrun in a TorchElastic job.
    TorchElastic,
    /// `examples/quickstart.yaml` unchanged: a replication factor of one, so its servers get only short stops.
    Quickstart,
    /// The same with a replication factor of two, so its servers get all faults.
    QuickstartReplicated,
    /// The same; its servers are killed one after the other, each as soon as redundancy is restored.
    ServerStorm,
}

impl Program {
    const ALL: [Self; 6] = [
        Self::Shell,
        Self::Dlrover,
        Self::TorchElastic,
        Self::Quickstart,
        Self::QuickstartReplicated,
        Self::ServerStorm,
    ];

    /// In turns: a shell script, PyTorch, and parameter servers; the kinds of each of these take turns as well.
    pub(super) fn of_seed(seed: u64) -> Self {
        match seed % 12 {
            0 | 3 | 6 | 9 => Program::Shell,
            1 | 7 => Program::Dlrover,
            4 | 10 => Program::TorchElastic,
            2 | 8 => Program::Quickstart,
            5 => Program::QuickstartReplicated,
            _ => Program::ServerStorm,
        }
    }

    pub(super) fn needs_torch(self) -> bool {
        match self {
            Program::Shell | Program::Quickstart | Program::QuickstartReplicated | Program::ServerStorm => false,
            Program::Dlrover | Program::TorchElastic => true,
        }
    }

    /// The value of `--chaos`: a seed with the number of faults per second, or a script.
    pub(super) fn chaos(self, seed: u64) -> String {
        match self {
            Program::Shell | Program::QuickstartReplicated => format!("{seed},0.3"),
            // It is over soon.
            Program::Quickstart => format!("{seed},0.5"),
            // It takes a dozen seconds to start.
            Program::Dlrover | Program::TorchElastic => format!("{seed},0.2"),
            Program::ServerStorm => format!("@{}", storm::FILE),
        }
    }

    /// Writes the script of its faults, if it has one.
    pub(super) fn write_script(self, seed: u64, folder: &Path) -> Result<()> {
        if self == Program::ServerStorm {
            fs::write(folder.join(storm::FILE), storm::script(seed).to_string())?;
        }
        Ok(())
    }

    /// The manifest: that of the example, but with a job that lasts long enough to be harmed.
    pub(super) fn manifest(self, examples: &Path) -> Result<String> {
        let slower = ("--epochs=5", "--epochs=1, --sleep=0.1, --log-every=5");
        let (file, changes) = match self {
            Program::Shell => {
                ("any-program/job.yaml", vec![("out, \"1000\", \"10\", \"0.02\"", "out, \"3000\", \"10\", \"0.2\"")])
            }
            Program::Dlrover => ("torch-mnist/dlrover.yaml", vec![slower]),
            Program::TorchElastic => ("torch-mnist/torchelastic.yaml", vec![slower]),
            Program::Quickstart => ("quickstart.yaml", vec![]),
            // Small batches, because it is quick.
            Program::QuickstartReplicated | Program::ServerStorm => (
                "quickstart.yaml",
                vec![
                    ("\nspec:\n", "\nspec:\n  flexor:\n    psReplicationFactor: 2\n"),
                    ("--test-data=quickstart-test.csv", "--test-data=quickstart-test.csv, --batch=32"),
                    ("--records=600000, --test-records=100000", "--records=400000, --test-records=50000"),
                ],
            ),
        };
        let path = examples.join(file);
        let mut text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for (example, ours) in changes {
            ensure!(text.contains(example), "{} does not say {example:?} any more", path.display());
            text = text.replacen(example, ours, 1);
        }
        Ok(text)
    }

    /// Checks the folder of a job that has succeeded.
    pub(super) fn check(self, folder: &Path, torch: Option<&Torch>) -> Result<()> {
        match self {
            Program::Shell => every_record_is_written(&folder.join("out")),
            Program::Dlrover => every_step_is_learnt(folder, "torch-mnist.pt", torch),
            Program::TorchElastic => every_step_is_learnt(folder, "digits.pt", torch),
            Program::Quickstart => {
                the_model_is_good(folder, NEAR_THE_BEST)?;
                every_click_is_learnt(folder)
            }
            Program::QuickstartReplicated | Program::ServerStorm => the_model_is_good(folder, NEAR_THE_BEST_OF_LESS),
        }
    }
}

fn every_record_is_written(out: &Path) -> Result<()> {
    let mut missing: BTreeSet<u64> = (0..RECORDS).collect();
    for file in fs::read_dir(out).context("no worker has written anything")? {
        for line in fs::read_to_string(file?.path())?.lines() {
            let record: u64 = line.parse().with_context(|| format!("{line:?} is no record"))?;
            ensure!(record < RECORDS, "there is no record {record}");
            missing.remove(&record);
        }
    }
    ensure!(missing.is_empty(), "{} records were lost, the first is {:?}", missing.len(), missing.first());
    Ok(())
}

fn every_step_is_learnt(folder: &Path, checkpoint: &str, torch: Option<&Torch>) -> Result<()> {
    let torch = torch.context("torch is not there")?;
    let script = format!("import torch; print(torch.load('{checkpoint}')['progress']['step'])");
    let python = std::process::Command::new(torch.python()).args(["-c", &script]).current_dir(folder).output()?;
    let steps = String::from_utf8_lossy(&python.stdout);
    ensure!(steps.trim() == STEPS, "the model has trained {:?} steps, not {STEPS}", steps.trim());
    Ok(())
}

fn every_click_is_learnt(folder: &Path) -> Result<()> {
    let records = &read(folder, "report/report.json")?["jobs"][0]["records"];
    let all = records["expected"] == CLICKS && records["accounted"] == CLICKS;
    ensure!(all, "not all of {CLICKS} records are accounted for: {records}");
    Ok(())
}

fn the_model_is_good(folder: &Path, near: f64) -> Result<()> {
    let best = read(folder, "quickstart.truth.json")?["best_auc"].as_f64().context("the best AUC is unknown")?;
    let report = read(folder, "report/report.json")?;
    let job = &report["jobs"][0];
    let found = job["learning"]["test"]["auc"].as_f64().context("the report has no AUC of the test data")?;
    ensure!(found > best - near, "an AUC of {found}, where {best} is possible");
    let updates = &job["updates"];
    ensure!(updates["lost"] == 0 && updates["reapplied"] == 0, "updates were lost or applied twice: {updates}");
    Ok(())
}

fn read(folder: &Path, name: &str) -> Result<Value> {
    let text = fs::read(folder.join(name)).with_context(|| format!("no {name}"))?;
    Ok(serde_json::from_slice(&text)?)
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Shell => "any-program",
            Program::Dlrover => "dlrover",
            Program::TorchElastic => "torchelastic",
            Program::Quickstart => "quickstart",
            Program::QuickstartReplicated => "quickstart-copies",
            Program::ServerStorm => "server-storm",
        })
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = Program::ALL;
        let named = all.into_iter().find(|program| program.to_string() == name);
        named.ok_or_else(|| format!("{name} is none of {}", all.map(|program| program.to_string()).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_record_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        let lines = |records: std::ops::Range<u64>| records.map(|record| format!("{record}\n")).collect::<String>();
        fs::write(out.join("0.txt"), lines(0..1500)).unwrap();
        fs::write(out.join("1.txt"), lines(1400..2999)).unwrap();
        let lost = Program::Shell.check(folder.path(), None).unwrap_err().to_string();
        assert_eq!(lost, "1 records were lost, the first is Some(2999)");
        fs::write(out.join("2.txt"), lines(2999..3000)).unwrap();
        Program::Shell.check(folder.path(), None).unwrap();
    }

    #[test]
    fn the_quickstart_is_soaked_as_it_is() {
        let examples = crate::tree::project_root().unwrap().join("examples");
        let text = fs::read_to_string(examples.join("quickstart.yaml")).unwrap();
        assert_eq!(Program::Quickstart.manifest(&examples).unwrap(), text);
        assert!(text.contains(&format!("--records={CLICKS}")));
    }

    #[test]
    fn a_job_with_parameter_servers_must_match_its_ledger_and_its_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("report")).unwrap();
        fs::write(path.join("quickstart.truth.json"), r#"{"best_auc": 0.8}"#).unwrap();
        let checked = |accounted: u64, auc: f64, reapplied: u64| {
            let job = serde_json::json!({
                "records": { "expected": CLICKS, "accounted": accounted },
                "updates": { "lost": 0, "reapplied": reapplied },
                "learning": { "test": { "auc": auc } },
            });
            let report = serde_json::json!({ "jobs": [job] });
            fs::write(path.join("report/report.json"), report.to_string()).unwrap();
            Program::Quickstart.check(path, None).map_err(|error| error.to_string())
        };
        assert_eq!(checked(CLICKS, 0.795, 0), Ok(()));
        assert!(checked(CLICKS - 1, 0.795, 0).unwrap_err().starts_with("not all of 600000 records"));
        assert!(checked(CLICKS, 0.785, 0).unwrap_err().starts_with("an AUC of 0.785"));
        assert!(checked(CLICKS, 0.795, 1).unwrap_err().starts_with("updates were lost or applied twice"));
    }

    #[test]
    fn every_program_has_its_seeds() {
        let names: BTreeSet<String> = (1..=12).map(|seed| Program::of_seed(seed).to_string()).collect();
        assert_eq!(names.len(), Program::ALL.len(), "{names:?}");
    }

    #[test]
    fn the_examples_can_be_made_longer() {
        let examples = crate::tree::project_root().unwrap().join("examples");
        for program in Program::ALL {
            program.manifest(&examples).unwrap();
            assert_eq!(program.to_string().parse(), Ok(program));
        }
    }
}
