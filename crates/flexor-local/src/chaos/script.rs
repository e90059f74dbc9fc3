//! `chaos.json`: the faults of one run, to be read by people and to be replayed. A file that is read back is checked in full.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fault::{Fault, ScheduledFault};
use super::plan::{FaultTarget, Rate, plan};
use crate::cluster::JobKey;

/// The only version of the format.
const VERSION: u32 = 1;
/// The largest script.
const MOST_BYTES: u64 = 8 << 20;
const MOST_FAULTS: usize = 20_000;
/// The latest start and the longest duration of a fault.
const LATEST: Duration = Duration::from_secs(24 * 3600);
const LONGEST: Duration = Duration::from_secs(600);
/// The longest delay of an fsync and the furthest jump of a clock.
const SLOWEST_MS: u64 = 10_000;
const FURTHEST_MS: u64 = 24 * 3600 * 1000;
/// For how long a seed injects faults: programs shall finish at last.
const HORIZON: Duration = Duration::from_secs(600);

/// The faults of one run, in order of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    version: u32,
    /// The seed it was made from, for readers.
    seed: u64,
    rate: Rate,
    /// Faults hit parameter servers only while every partition has two replicas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    spare_servers: bool,
    faults: Vec<ScheduledFault>,
}

/// Why a script cannot be used.
#[derive(Debug, Error)]
pub enum ScriptError {
    #[error("{}: {source}; give a chaos.json that an earlier run has written", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not a script.
    #[error("{}: {source}; a run with --chaos SEED writes one that is right", path.display())]
    NoScript { path: PathBuf, source: serde_json::Error },
    /// A value is out of its bounds.
    #[error("{}: {wrong}", path.display())]
    Wrong { path: PathBuf, wrong: String },
}

impl Script {
    /// The faults that a seed stands for.
    #[must_use]
    pub fn of_seed(seed: u64, rate: Rate, targets: &[FaultTarget]) -> Self {
        Self { version: VERSION, seed, rate, spare_servers: true, faults: plan(seed, rate, targets, HORIZON) }
    }

    /// Reads and checks a file. Its faults must be about `jobs`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no script, or has a value out of its bounds.
    pub fn read(path: &Path, jobs: &[JobKey]) -> Result<Self, ScriptError> {
        let unreadable = |source| ScriptError::Unreadable { path: path.to_owned(), source };
        let wrong = |wrong| ScriptError::Wrong { path: path.to_owned(), wrong };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("it is longer than {} MiB; split it", MOST_BYTES >> 20)));
        }
        let no_script = |source| ScriptError::NoScript { path: path.to_owned(), source };
        let mut script: Self = serde_json::from_slice(&bytes).map_err(no_script)?;
        script.check(jobs).map_err(wrong)?;
        script.faults.sort_by_key(|fault| fault.at_ms);
        Ok(script)
    }

    /// Writes the script, whole or not at all.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let half = path.with_extension("json.half");
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        fs::write(&half, text)?;
        fs::rename(half, path)
    }

    /// In order of time.
    #[must_use]
    pub fn faults(&self) -> &[ScheduledFault] {
        &self.faults
    }

    /// Whether faults hit parameter servers only while every partition has two replicas.
    #[must_use]
    pub fn spares_servers(&self) -> bool {
        self.spare_servers
    }

    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    fn check(&self, jobs: &[JobKey]) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("it is of version {}; this program knows version {VERSION}", self.version));
        }
        if self.faults.len() > MOST_FAULTS {
            return Err(format!("it has {} faults; {MOST_FAULTS} are the most", self.faults.len()));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            check_fault(fault, jobs).map_err(|wrong| format!("faults[{index}]: {wrong}"))?;
        }
        Ok(())
    }
}

fn check_fault(fault: &ScheduledFault, jobs: &[JobKey]) -> Result<(), String> {
    if fault.at() > LATEST {
        return Err(format!("atMs {} is more than a day after the start", fault.at_ms));
    }
    if fault.fault.lasts().is_some_and(|lasts| lasts > LONGEST) {
        return Err(format!("forMs is more than {} seconds", LONGEST.as_secs()));
    }
    match &fault.fault {
        Fault::SlowDisk { by_ms, .. } if *by_ms > SLOWEST_MS => {
            return Err(format!("byMs {by_ms} is more than {SLOWEST_MS}"));
        }
        Fault::JumpClock { by_ms, .. } if by_ms.unsigned_abs() > FURTHEST_MS => {
            return Err(format!("byMs {by_ms} is more than a day"));
        }
        Fault::Kill(_)
        | Fault::KillSupervisor(_)
        | Fault::KillSidecar(_)
        | Fault::Stop { .. }
        | Fault::Delete(_)
        | Fault::FillDisk { .. }
        | Fault::SlowDisk { .. }
        | Fault::JumpClock { .. }
        | Fault::FailWrites { .. } => {}
    }
    match fault.fault.job() {
        Some(job) if !jobs.contains(job) => {
            Err(format!("it is about the job {job}, which is not among those that are run"))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobKey {
        JobKey { namespace: "default".parse().unwrap(), name: "job".parse().unwrap() }
    }

    fn read(text: &str) -> Result<Script, ScriptError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chaos.json");
        fs::write(&path, text).unwrap();
        Script::read(&path, &[job()])
    }

    #[test]
    fn a_written_script_is_read_back() {
        let role = "Worker".parse().unwrap();
        let target =
            FaultTarget { job: job(), role, replicas: 3, is_master: true, has_sidecar: true, is_spared: false };
        let script = Script::of_seed(u64::MAX, Rate::default(), &[target]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chaos.json");
        script.write(&path).unwrap();
        assert_eq!(Script::read(&path, &[job()]).unwrap(), script);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let refused = Script::read(&path, &[]).unwrap_err().to_string();
        assert!(refused.contains("about the job default/job, which is not among those that are run"), "{refused}");
    }

    #[test]
    fn faults_are_sorted_by_time() {
        let writes = |at| format!(r#"{{"atMs":{at},"fault":{{"failWrites":{{"forMs":1}}}}}}"#);
        let script =
            read(&format!(r#"{{"version":1,"seed":0,"rate":1,"faults":[{},{}]}}"#, writes(9), writes(3))).unwrap();
        assert_eq!(script.faults().iter().map(|fault| fault.at_ms).collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_path() {
        let fault = |text: &str| format!(r#"{{"version":1,"seed":0,"rate":1,"faults":[{text}]}}"#);
        let slot = r#"{"job":{"namespace":"default","name":"job"},"role":"Worker","rank":0}"#;
        for (text, message) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "invalid"),
            (fault("").replace(":1,", ":2,"), "version 2"),
            (fault("").replace(r#""rate":1"#, r#""rate":0"#), "no rate"),
            (fault("").replace("seed", "sed"), "sed"),
            (fault(r#"{"atMs":-1,"fault":{"failWrites":{"forMs":1}}}"#), "-1"),
            (fault(r#"{"atMs":86400001,"fault":{"failWrites":{"forMs":1}}}"#), "faults[0]: atMs 86400001"),
            (fault(r#"{"atMs":1,"fault":{"failWrites":{"forMs":600001}}}"#), "faults[0]: forMs"),
            (fault(&format!(r#"{{"atMs":1,"fault":{{"explode":{slot}}}}}"#)), "explode"),
            (fault(&format!(r#"{{"atMs":1,"fault":{{"stop":{{"slot":{slot},"forMs":1,"now":2}}}}}}"#)), "now"),
            (
                fault(&format!(r#"{{"atMs":1,"fault":{{"kill":{}}}}}"#, slot.replace("job\"}", "other\"}"))),
                "default/other",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(message), "{message} is not in {error}");
        }
        let long = read(&" ".repeat(9 << 20)).unwrap_err().to_string();
        assert!(long.contains("longer than 8 MiB"), "{long}");
        let missing = Script::read(Path::new("no-such-file.json"), &[]).unwrap_err().to_string();
        assert!(missing.starts_with("no-such-file.json: No such file"), "{missing}");
    }
}
