//! The laptop cluster in this process, whose pods are real processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use flexor_local::cluster::{Cluster, JobKey, Options, PodRecord};
use flexor_local::limits::LimitsMode;
use flexor_local::state_dir::StateDirError;
use flexor_model::{IdRule, Job, RoleKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::super::super::faults::deadline::eventually;
use super::super::cluster::{Workspace, job_of};
use crate::model::history::Act;
use crate::model::job_of_manifest;
use crate::model::plan::{migration_of, plan_for};
use crate::model::pure::State;
use crate::program::bin;

const PATIENCE: Duration = Duration::from_secs(60);
/// Ends with the code that is written into the file of its pod.
const PROGRAM: &str = r#"until test -s "$POD_UID.exit"; do sleep 0.02; done; exit "$(cat "$POD_UID.exit")""#;

pub struct Real {
    runtime: Runtime,
    cluster: Cluster,
    driver: JoinHandle<std::io::Result<()>>,
    job: Job,
    plans: usize,
    stops: usize,
    place: Workspace,
}

impl Real {
    /// A job of two workers. The first cluster that has it stops after so many acts.
    pub fn new(ids: IdRule, stop_after: Option<usize>) -> Self {
        let place = Workspace::new();
        let manifest = job_of("model", 2, PROGRAM);
        let mut job = job_of_manifest(&manifest.to_string());
        job.roles.iter_mut().find(|role| role.kind == RoleKind::Worker).unwrap().naming.ids = ids;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (cluster, driver) = open(&runtime, &place, stop_after.unwrap_or(usize::MAX));
        cluster.apply(job.clone(), manifest).unwrap();
        Self { runtime, cluster, driver, job, plans: 0, stops: 0, place }
    }

    pub fn job(&self) -> Job {
        self.job.clone()
    }

    /// How often the cluster has stopped.
    pub fn stops(&self) -> usize {
        self.stops
    }

    pub fn act(&mut self, act: &Act) {
        match act {
            Act::Exit(rank, code) => {
                let file = self.place.folder.path().join(format!("{}.exit", self.worker(*rank).meta.uid));
                fs::write(file, code.to_string()).unwrap();
            }
            Act::Kill(rank) => {
                let worker = self.worker(*rank).meta.desired.name;
                let seen = self.place.await_running(&worker);
                kill(seen.main_id().unwrap(), Signal::SIGKILL).unwrap();
            }
            Act::Lose(rank) => {
                let (parent, _) = self.worker(*rank).supervisor.unwrap();
                kill(Pid::from_raw(parent), Signal::SIGKILL).unwrap();
            }
            Act::Delete(rank) => {
                let name = self.worker(*rank).meta.desired.name;
                self.cluster.delete_pod_named(&"default".parse().unwrap(), &name).unwrap();
            }
            Act::Scale(workers) => {
                let plan = plan_for(&self.job, self.plans, *workers);
                self.plans += 1;
                self.cluster.apply_plan(plan, serde_json::Value::Null).unwrap();
            }
            Act::Migrate(rank) => {
                let plan = migration_of(&self.job, self.plans, &self.worker(*rank).meta.desired.name);
                self.plans += 1;
                self.cluster.apply_plan(plan, serde_json::Value::Null).unwrap();
            }
        }
    }

    fn worker(&self, rank: u32) -> PodRecord {
        let role = &self.job.role(RoleKind::Worker).unwrap().name;
        let is_it = |pod: &&PodRecord| {
            pod.meta.desired.role == *role
                && pod.meta.desired.rank.0 == rank
                && !pod.is_deleting()
                && pod.supervisor.is_some()
        };
        let look = |all: &flexor_local::cluster::ClusterView<'_>| all.pods.values().find(is_it).cloned();
        self.cluster.read(look).unwrap_or_else(|| panic!("no worker {rank}"))
    }

    /// Waits until the cluster has come to a state; where it stops on the way, another takes over.
    pub fn comes_to(&mut self, wanted: &State, what: &str) {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            if self.driver.is_finished() {
                self.take_over();
            }
            let state = self.state();
            if state == *wanted {
                return;
            }
            assert!(std::time::Instant::now() < until, "{what}\nwanted {wanted:?}\nis     {state:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn take_over(&mut self) {
        self.stops += 1;
        let nobody = self.place.folder.path().join("nobody");
        // The folder has to be let go before another can have it.
        let aside = Options { state_dir: flexor_local::state_dir::StateDir::at(nobody), ..options(&self.place) };
        self.cluster = Cluster::open(aside).unwrap();
        (self.cluster, self.driver) = open(&self.runtime, &self.place, usize::MAX);
    }

    fn state(&self) -> State {
        let key = JobKey { namespace: "default".parse().unwrap(), name: self.job.name.clone() };
        self.cluster.read(|all| {
            let record = &all.jobs[&key];
            let pods = all.pods.values().map(|pod| {
                let going = if pod.is_deleting() { " going" } else { "" };
                (format!("{}{going}", pod.meta.desired.name), pod.phase())
            });
            State::of(&record.status, record.plans.iter().map(|plan| &plan.status), pods)
        })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn options(place: &Workspace) -> Options {
    let path = std::env::var("PATH").unwrap_or_default();
    Options {
        state_dir: place.state_dir(),
        flexor: bin(),
        pod_word: "pod",
        folder: place.folder.path().to_owned(),
        base: BTreeMap::from([("PATH".to_owned(), path)]),
        ephemeral: false,
        cpus: None,
        background: false,
        limits: LimitsMode::Watched,
        chaos: false,
    }
}

fn open(runtime: &Runtime, place: &Workspace, acts: usize) -> (Cluster, JoinHandle<std::io::Result<()>>) {
    // A process that is just being started has the folder's lock until it has become another program.
    let cluster = eventually("the folder to be free", || match Cluster::open(options(place)) {
        Err(StateDirError::Taken(_)) => None,
        opened => Some(opened.unwrap()),
    });
    let driver = {
        let cluster = cluster.clone();
        runtime.spawn(async move { cluster.run_until_acted(acts).await })
    };
    (cluster, driver)
}
