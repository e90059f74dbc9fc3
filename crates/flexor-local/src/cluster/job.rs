//! A job of the cluster, with its plans and what the controller has written down: one file each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use flexor_engine::controller::{JobStatus, PlanStatus};
use flexor_model::{DnsLabel, Job, JobName, JobUid, Plan, PortName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::home::Home;

/// Which job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobKey {
    /// Its namespace.
    pub namespace: DnsLabel,
    /// Its name.
    pub name: JobName,
}

/// A job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// Which.
    pub key: JobKey,
    /// Its unique id.
    pub uid: JobUid,
    /// The manifest that it comes from.
    pub manifest: Value,
    /// What that means.
    pub job: Job,
    /// Counts the changes of the manifest.
    pub generation: u64,
    /// When it came.
    pub created_at: Duration,
    /// It is to go.
    pub deleting: bool,
    /// What the controller has written down.
    pub status: JobStatus,
    /// The names of its services.
    pub services: BTreeSet<String>,
    /// The plans about it.
    pub plans: Vec<PlanRecord>,
    /// Where those of its pods are that keep their place, by role and rank.
    #[serde(default)]
    pub places: BTreeMap<String, Place>,
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Its address.
    pub address: Ipv4Addr,
    /// Where it listens, by the names of the ports.
    pub ports: BTreeMap<PortName, SocketAddr>,
    /// It is the job's master.
    pub is_master: bool,
}

/// A plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRecord {
    /// The manifest that it comes from.
    pub manifest: Value,
    /// What that wants.
    pub plan: Plan,
    /// When it came.
    pub created_at: Duration,
    /// How far it is.
    pub status: PlanStatus,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl JobRecord {
    /// Writes it down, whole or not at all.
    pub(super) fn save(&self, home: &Home) -> io::Result<()> {
        let path = file(home, &self.key);
        let half = path.with_extension("half");
        fs::write(&half, serde_json::to_vec(self).map_err(io::Error::other)?)?;
        fs::rename(half, path)
    }

    /// Removes it, and the journal of its master.
    pub(super) fn remove(&self, home: &Home) -> io::Result<()> {
        let master = home.master(&self.uid.to_string());
        if master.exists() {
            fs::remove_dir_all(master)?;
        }
        fs::remove_file(file(home, &self.key))
    }
}

fn file(home: &Home, key: &JobKey) -> std::path::PathBuf {
    home.jobs().join(format!("{}.{}.json", key.namespace, key.name))
}

/// All jobs of a cluster that ran before.
pub(super) fn read_all(home: &Home) -> io::Result<BTreeMap<JobKey, JobRecord>> {
    let mut jobs = BTreeMap::new();
    for entry in fs::read_dir(home.jobs())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let record: JobRecord = serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)?;
            jobs.insert(record.key.clone(), record);
        }
    }
    Ok(jobs)
}
