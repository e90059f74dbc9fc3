//! Programs that record their identity and start time, each in its own file.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// The record of a started program.
#[derive(Debug, Clone)]
pub(super) struct ProgramStart {
    /// The name of its pod.
    pub(super) pod: String,
    /// Its process.
    pub(super) pid: i32,
    /// Since the Unix epoch.
    pub(super) at: Duration,
}

/// The folder for the records.
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    pub(super) fn in_folder(folder: &Path) -> Result<Programs> {
        let folder = folder.join("starts");
        fs::create_dir_all(&folder)?;
        Ok(Programs { folder })
    }

    /// A TorchElastic job of this many programs, which then run this. Without a master nothing else runs.
    pub(super) fn job(&self, name: &str, replicas: u32, then: &str, with_master: bool) -> Value {
        let folder = self.folder.display();
        // Two dollar signs are one to Kubernetes.
        let script = format!(
            "echo $POD_NAME $$$$ $(date +%s%N) >{folder}/.$POD_UID; mv {folder}/.$POD_UID {folder}/$POD_UID; {then}"
        );
        let container = json!({ "name": "elasticjob-worker", "image": "none", "command": ["sh", "-c", script] });
        let mut job = json!({
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": { "name": name },
            "spec": {
                "minReplicas": 1,
                "maxReplicas": replicas,
                "replicaSpecs": { "Worker": {
                    "replicas": replicas, "restartPolicy": "ExitCode",
                    "template": { "spec": { "containers": [container] } },
                } },
            },
        });
        if !with_master {
            job["spec"]["rdzvEndpoint"] = "127.0.0.1:1".into();
        }
        job
    }

    /// All starts so far.
    pub(super) fn starts(&self) -> Result<Vec<ProgramStart>> {
        let mut starts = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let text = fs::read_to_string(entry.path())?;
            starts.push(read(&text).with_context(|| format!("{} holds {text:?}", entry.path().display()))?);
        }
        Ok(starts)
    }

    /// Waits until this many have been started, and returns them.
    pub(super) fn await_starts(&self, count: usize, limit: Duration) -> Result<Vec<ProgramStart>> {
        let begun = Instant::now();
        loop {
            let starts = self.starts()?;
            if starts.len() >= count {
                return Ok(starts);
            }
            if begun.elapsed() > limit {
                bail!("{} of {count} programs were started within {limit:?}", starts.len());
            }
            // The files carry their times, so the interval is in no measurement.
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read(text: &str) -> Option<ProgramStart> {
    let mut words = text.split_whitespace();
    let (pod, pid) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some(ProgramStart { pod, pid, at: Duration::from_nanos(words.next()?.parse().ok()?) })
}
