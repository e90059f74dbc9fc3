//! `chaos.json`: the acts of one run, to be read and to be done again. What comes back from a file is checked as if
//! somebody else had written it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fault::{Fault, ScheduledFault};
use super::plan::{Crew, Rate, plan};
use crate::cluster::JobKey;

/// The only form that there is.
const VERSION: u32 = 1;
/// No script is longer.
const MOST_BYTES: u64 = 8 << 20;
const MOST_ACTS: usize = 20_000;
/// No act is later, and none lasts longer.
const LATEST: Duration = Duration::from_secs(24 * 3600);
const LONGEST: Duration = Duration::from_secs(600);
/// No fsync is slower, and no clock jumps further.
const SLOWEST_MS: u64 = 10_000;
const FURTHEST_MS: u64 = 24 * 3600 * 1000;
/// How long acts go on: programs are to get done at last.
const HORIZON: Duration = Duration::from_secs(600);

/// The acts of one run, in the order of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    version: u32,
    /// What it was made from, for those who read it.
    seed: u64,
    rate: Rate,
    /// Parameter servers are harmed only while everything that they keep is kept twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    spare_servers: bool,
    faults: Vec<ScheduledFault>,
}

/// Why a script cannot be used.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{}: {source}; give a chaos.json that an earlier run has written", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what a script looks like.
    #[error("{}: {source}; a run with --chaos SEED writes one that is right", path.display())]
    NoScript {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        source: serde_json::Error,
    },
    /// It says something that makes no sense.
    #[error("{}: {wrong}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What, and what to do.
        wrong: String,
    },
}

impl Script {
    /// The acts that a seed stands for.
    #[must_use]
    pub fn of_seed(seed: u64, rate: Rate, crews: &[Crew]) -> Self {
        Self { version: VERSION, seed, rate, spare_servers: true, faults: plan(seed, rate, crews, HORIZON) }
    }

    /// The acts in a file, all of them possible, about jobs that are among `jobs`.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no script, or says what makes no sense.
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

    /// Writes it down, whole or not at all.
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

    /// What is done, in order.
    #[must_use]
    pub fn faults(&self) -> &[ScheduledFault] {
        &self.faults
    }

    /// Whether parameter servers are harmed only while everything that they keep is kept twice.
    #[must_use]
    pub fn spares_servers(&self) -> bool {
        self.spare_servers
    }

    /// The seed that it was made from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    fn check(&self, jobs: &[JobKey]) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("it is of version {}; this program knows version {VERSION}", self.version));
        }
        if self.faults.len() > MOST_ACTS {
            return Err(format!("it has {} acts; {MOST_ACTS} are the most", self.faults.len()));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            check_act(fault, jobs).map_err(|wrong| format!("acts[{index}]: {wrong}"))?;
        }
        Ok(())
    }
}

fn check_act(fault: &ScheduledFault, jobs: &[JobKey]) -> Result<(), String> {
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
    fn what_was_written_is_read_back() {
        let role = "Worker".parse().unwrap();
        let crew = Crew { job: job(), role, replicas: 3, is_master: true, has_sidecar: true, is_spared: false };
        let script = Script::of_seed(u64::MAX, Rate::default(), &[crew]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chaos.json");
        script.write(&path).unwrap();
        assert_eq!(Script::read(&path, &[job()]).unwrap(), script);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let refused = Script::read(&path, &[]).unwrap_err().to_string();
        assert!(refused.contains("about the job default/job, which is not among those that are run"), "{refused}");
    }

    #[test]
    fn acts_are_done_in_order_however_they_stand_in_the_file() {
        let writes = |at| format!(r#"{{"atMs":{at},"fault":{{"failWrites":{{"forMs":1}}}}}}"#);
        let script =
            read(&format!(r#"{{"version":1,"seed":0,"rate":1,"faults":[{},{}]}}"#, writes(9), writes(3))).unwrap();
        assert_eq!(script.faults().iter().map(|fault| fault.at_ms).collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn nonsense_is_refused_with_where_it_stands() {
        let fault = |text: &str| format!(r#"{{"version":1,"seed":0,"rate":1,"faults":[{text}]}}"#);
        let slot = r#"{"job":{"namespace":"default","name":"job"},"role":"Worker","rank":0}"#;
        for (text, told) in [
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
            assert!(error.contains(told), "{told} is not in {error}");
        }
        let long = read(&" ".repeat(9 << 20)).unwrap_err().to_string();
        assert!(long.contains("longer than 8 MiB"), "{long}");
        let missing = Script::read(Path::new("no-such-file.json"), &[]).unwrap_err().to_string();
        assert!(missing.starts_with("no-such-file.json: No such file"), "{missing}");
    }
}
