//! An operator that is killed after every action.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flexor_testbed::Cluster;

use super::super::guard::{Masters, args};
use super::job_on_cluster::JobOnCluster;
use super::{LOOK_EVERY, PATIENCE, Service};
use crate::model::pure::State;
use crate::program::bin;

const IMAGE: &str = "flexor:test";
/// An operator that has served for so long, and did nothing to a job that is as wanted, has nothing to do.
const REST: Duration = Duration::from_secs(1);

pub struct ShortLives<'a> {
    cluster: &'a Cluster,
    kubeconfig: PathBuf,
    kills: usize,
}

impl<'a> ShortLives<'a> {
    pub async fn on(cluster: &'a Cluster) -> Self {
        let kubeconfig = cluster.kubeconfig_of("flexor-system", "flexor-operator").await.unwrap();
        Self { cluster, kubeconfig, kills: 0 }
    }

    /// How often it was killed after an action.
    pub fn kills(&self) -> usize {
        self.kills
    }
}

impl Service for ShortLives<'_> {
    /// Starts it again whenever it was killed, until it finds nothing to do about a job that is in this state.
    async fn bring(&mut self, job: &JobOnCluster<'_>, wanted: &State, what: &str) {
        let began = Instant::now();
        let remembered = |state: State| state.after_kills(job.ids());
        let wanted = remembered(wanted.clone());
        loop {
            let abort = ["--abort-after", "1"].map(str::to_owned);
            let args = args(IMAGE, Masters::Absent).chain(abort);
            let mut life = self.cluster.run(&bin(), args, &self.kubeconfig).unwrap();
            let mut serves_since: Option<Instant> = None;
            while life.ended().is_none() {
                if serves_since.is_none() && life.log().contains(" serving ") {
                    serves_since = Some(Instant::now());
                }
                let has_rested = serves_since.is_some_and(|since| since.elapsed() > REST);
                let state = job.state().await.map(remembered);
                if has_rested && state.as_ref() == Some(&wanted) && life.ended().is_none() {
                    return life.kill().unwrap();
                }
                assert!(began.elapsed() < PATIENCE, "{what}\nwanted {wanted:?}\nis     {state:?}\n{}", life.log());
                tokio::time::sleep(LOOK_EVERY).await;
            }
            assert!(life.log().contains(" serving "), "{what}: it ended before it served: {}", life.log());
            self.kills += 1;
        }
    }
}
