//! A job of the cluster, with its plans and what the controller has written down: one file each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use flexor_dialects::{JobCondition, PodCounts, StatusInput, dialect};
use flexor_engine::Cause;
use flexor_engine::controller::{JobStatus, ObservedPlan, PlanPhase, PlanStatus, PodPhase};
use flexor_model::{DnsLabel, Job, JobName, JobUid, Plan, PortName, RoleName, UnixTime};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Timeline, TrainingStatus};
use crate::atomic_file;
use crate::state_dir::StateDir;

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
    pub created_at: UnixTime,
    /// It is to go.
    pub deleting: bool,
    /// What the controller has written down.
    pub status: JobStatus,
    /// The names of its services.
    pub services: BTreeSet<String>,
    /// The plans about it.
    pub plans: Vec<PlanRecord>,
    /// The conditions of its status, which remember the phases that it was in.
    #[serde(default)]
    pub conditions: Vec<JobCondition>,
    /// Where those of its pods are that keep their place, by role and rank.
    #[serde(default)]
    pub places: BTreeMap<String, PodAddress>,
    /// What it did with its time.
    #[serde(default)]
    pub timeline: Timeline,
    /// Why its programs cannot meet any more, as its master says.
    #[serde(skip)]
    pub closed: Option<Cause>,
    /// Its parameter servers that are to leave and keep nothing any more, as its master says.
    #[serde(skip)]
    pub released: BTreeSet<String>,
    /// How its training stands, as its master says.
    #[serde(skip)]
    pub training: Option<TrainingStatus>,
    /// When its master was heard last.
    #[serde(skip)]
    pub master_heard_at: Option<UnixTime>,
    /// Since when its master does not answer.
    #[serde(skip)]
    pub master_silent_since: Option<UnixTime>,
}

/// Where a pod of the job is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAddress {
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
    pub created_at: UnixTime,
    /// How far it is.
    pub status: PlanStatus,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl JobKey {
    /// The key of a job, in the usual namespace where it names none.
    pub fn of(job: &Job) -> Self {
        let namespace = job.namespace.clone().unwrap_or_else(super::requests::default_namespace);
        Self { namespace, name: job.name.clone() }
    }
}

impl JobRecord {
    /// Changes it and writes that down; where that fails nothing has changed. What is on its way out goes on all the same:
    /// a full disk must not keep it.
    pub(super) fn change(&mut self, state_dir: &StateDir, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        let mut changed = self.clone();
        change(&mut changed);
        if let Some(dialect) = dialect(&changed.job.dialect) {
            changed.conditions = dialect.conditions(&changed.status_input(&BTreeMap::new()));
        }
        if let Err(error) = changed.save(state_dir) {
            if !changed.deleting {
                return Err(error);
            }
            tracing::warn!(job = %self.key, %error, "cannot be written down; it is deleted all the same");
        }
        *self = changed;
        Ok(())
    }

    /// Its plans, for the controller.
    pub(super) fn observed_plans(&self) -> Vec<ObservedPlan> {
        let observed = |PlanRecord { plan, created_at, status, .. }: &PlanRecord| ObservedPlan {
            plan: plan.clone(),
            created_at: *created_at,
            status: status.clone(),
        };
        self.plans.iter().map(observed).collect()
    }

    /// What its dialect writes its status from.
    pub(crate) fn status_input<'a>(&'a self, pods: &'a BTreeMap<RoleName, PodCounts>) -> StatusInput<'a> {
        let scaling = self.plans.iter().find(|plan| plan.status.phase == PlanPhase::Scaling);
        StatusInput {
            job: &self.job,
            generation: self.generation,
            status: &self.status,
            pods,
            plan: scaling.map(|plan| plan.plan.name.as_str()),
            conditions: &self.conditions,
            now: super::now(),
        }
    }

    /// Counts pods by role and phase.
    pub(crate) fn count<'a>(pods: impl Iterator<Item = (&'a RoleName, PodPhase)>) -> BTreeMap<RoleName, PodCounts> {
        let mut counts: BTreeMap<RoleName, PodCounts> = BTreeMap::new();
        for (role, phase) in pods {
            let of_role = counts.entry(role.clone()).or_default();
            match phase {
                PodPhase::Pending => of_role.pending += 1,
                PodPhase::Running => of_role.active += 1,
                PodPhase::Succeeded => of_role.succeeded += 1,
                PodPhase::Failed => of_role.failed += 1,
            }
        }
        counts
    }

    /// Writes it down, whole or not at all.
    pub(super) fn save(&self, state_dir: &StateDir) -> io::Result<()> {
        state_dir.write_faults().check()?;
        atomic_file::write(&file(state_dir, &self.key), self)
    }

    /// The file with its token.
    pub(super) fn token_file(&self, state_dir: &StateDir) -> PathBuf {
        state_dir.token(self.key.namespace.as_str(), self.key.name.as_str())
    }

    /// Removes it, its token, and the journal of its master.
    pub(super) fn remove(&self, state_dir: &StateDir) -> io::Result<()> {
        let master = state_dir.master(&self.uid.to_string());
        if master.join(crate::JOURNAL_REFUSED).exists() {
            let kept = master.with_extension(super::DAMAGED);
            tracing::warn!("the journal of {} has lost facts; it is kept in {}", self.key, kept.display());
            fs::rename(master, kept)?;
        } else if master.exists() {
            fs::remove_dir_all(master)?;
        }
        // The file of the job is the last: a cluster that takes over removes what is left of a deleted job.
        let faults = state_dir.faults(&self.uid.to_string());
        for path in [faults, self.token_file(state_dir), file(state_dir, &self.key)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

fn file(state_dir: &StateDir, key: &JobKey) -> PathBuf {
    state_dir.jobs().join(format!("{}.{}.json", key.namespace, key.name))
}

/// All jobs of a cluster that ran before, and the files of jobs that cannot be read. One bad file does not keep the others.
pub(super) fn read_all(state_dir: &StateDir) -> io::Result<(BTreeMap<JobKey, JobRecord>, Vec<PathBuf>)> {
    let (mut jobs, mut unreadable) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(state_dir.jobs())? {
        let path = entry?.path();
        match path.extension().and_then(OsStr::to_str) {
            Some("json") => match atomic_file::read::<JobRecord>(&path) {
                Ok(record) => _ = jobs.insert(record.key.clone(), record),
                Err(error) => {
                    tracing::error!(
                        %error,
                        "a job cannot be read, so nothing manages its pods; restore its file, or end them with `flexor local down`"
                    );
                    unreadable.push(path);
                }
            },
            Some(super::DAMAGED) => {}
            // Half of a file, whose writer was killed.
            Some(_) | None => fs::remove_file(path)?,
        }
    }
    Ok((jobs, unreadable))
}
