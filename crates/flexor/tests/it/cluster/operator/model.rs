//! Histories of a job on a cluster, the third world of the model test beside the pure controller and the laptop. After
//! every act the job comes to the state of the pure controller, also where the operator is killed after each of its
//! actions; and no pod is created more often than the pure controller creates it.

mod job_on_cluster;
mod short_lives;

use std::time::{Duration, Instant};

use flexor_model::IdRule;
use flexor_testbed::{Cluster, ClusterConfig, cluster_or_skip};

use self::job_on_cluster::JobOnCluster;
use self::short_lives::ShortLives;
use super::audit::creations;
use super::jobs::served;
use super::{Operator, turn};
use crate::cluster::installed::install;
use crate::model::history::{Act, Dice, acts};
use crate::model::pure::{Pure, State};

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An operator that serves the job of a history.
trait Service {
    /// Waits until it has brought the job to a state.
    async fn bring(&mut self, job: &JobOnCluster<'_>, wanted: &State, what: &str);
}

/// It runs all the time.
impl Service for Operator<'_> {
    async fn bring(&mut self, job: &JobOnCluster<'_>, wanted: &State, what: &str) {
        let began = Instant::now();
        loop {
            let state = job.state().await;
            if state.as_ref() == Some(wanted) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{what}\nwanted {wanted:?}\nis     {state:?}\n{}", self.log());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Plays a history on the cluster beside the pure controller, in a namespace of its own.
async fn play(cluster: &Cluster, operator: &mut impl Service, ids: IdRule, history: &[Act], what: &str) {
    let mut job = JobOnCluster::create(cluster, ids).await;
    let mut pure = Pure::new(job.job().clone());
    pure.settle();
    operator.bring(&job, &pure.state(), what).await;
    for (number, act) in history.iter().enumerate() {
        pure.act(act);
        pure.settle();
        job.act(act).await;
        operator.bring(&job, &pure.state(), &format!("{what}, act {number}: {act:?} of {history:?}")).await;
    }
    // Of a request whose client was killed before its answer the audit log may not say that it was executed.
    let (created, wanted) = (creations(cluster, job.namespace(), "pods"), pure.creations());
    assert!(!created.is_empty(), "{what}: the API server has written down what was created");
    for (pod, times) in &created {
        let most = wanted.get(pod).copied().unwrap_or_default();
        assert!(*times <= most, "{what}: {pod} was created {times} times and not {most}: {created:?} of {history:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_a_cluster_comes_to_the_state_of_the_pure_controller() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    let mut operator = served(&cluster).await;
    for seed in flexor_seeds::range(0..4) {
        println!("{}", flexor_seeds::replay_line(seed));
        let ids = if seed % 2 == 0 { IdRule::Rank } else { IdRule::Increasing };
        let history = acts(&mut Dice(seed), 5);
        play(&cluster, &mut operator, ids, &history, &format!("seed {seed}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_after_every_action_of_a_history_comes_to_the_same_state() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    install(&cluster, "deploy/default").await;
    let history = [
        Act::Kill(0),
        Act::Scale(3),
        Act::Delete(1),
        Act::Migrate(0),
        Act::Lose(2),
        Act::Exit(1, 1),
        Act::Scale(2),
        Act::Exit(0, 0),
        Act::Exit(1, 0),
    ];
    for ids in [IdRule::Rank, IdRule::Increasing] {
        let mut lives = ShortLives::on(&cluster).await;
        play(&cluster, &mut lives, ids, &history, &format!("{ids:?}")).await;
        assert!(lives.kills() > 15, "{ids:?}: {} kills in a history of more than fifteen actions", lives.kills());
    }
}
