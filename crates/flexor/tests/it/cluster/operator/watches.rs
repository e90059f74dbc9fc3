//! Watches that end, expire, repeat their events or lag: no pod is lost, and none is created twice.

use std::collections::BTreeMap;

use flexor_testbed::{Cluster, ClusterConfig, TestNamespace, cluster_or_skip};

use super::audit::creations;
use super::jobs::{ALL_REDUCE, apply, await_running, eventually, uids};
use super::watch_proxy::{Delivery, Ending, Expiry, WatchProxy};
use super::{Operator, turn};
use crate::cluster::installed::{install, succeed};

const KIND: &str = "elasticjobs.elastic.iml.github.io";
const MASTER: &str = "elasticjob-j-dlrover-master";
const WORKERS: [&str; 4] = ["j-edljob-worker-0", "j-edljob-worker-1", "j-edljob-worker-2", "j-edljob-worker-3"];
/// So often each watch is refused: the library doubles its wait with every refusal.
const REFUSALS: u32 = 3;
const ROUNDS: u32 = 5;

/// A job of two workers whose operator is disturbed.
struct Disturbed<'a> {
    cluster: &'a Cluster,
    operator: &'a Operator<'a>,
    proxy: &'a WatchProxy,
    namespace: TestNamespace<'a>,
    /// The uids of its first pods.
    before: BTreeMap<String, String>,
}

impl<'a> Disturbed<'a> {
    async fn start(cluster: &'a Cluster, operator: &'a Operator<'a>, proxy: &'a WatchProxy, hint: &str) -> Self {
        let namespace = cluster.namespace(hint).await.unwrap();
        apply(&namespace, ALL_REDUCE);
        await_running(&namespace, operator, &pods(2));
        let before = uids(&namespace);
        Self { cluster, operator, proxy, namespace, before }
    }

    fn scale(&self, workers: usize) {
        let patch = format!("{{\"spec\": {{\"replicaSpecs\": {{\"worker\": {{\"replicas\": {workers}}}}}}}}}");
        succeed(&mut self.namespace.kubectl(["patch", KIND, "j", "--type=merge", "-p", &patch]));
    }

    fn lose_worker_1(&self) {
        succeed(&mut self.namespace.kubectl(["delete", "pod", WORKERS[1]]));
    }

    fn await_workers(&self, workers: usize) {
        await_running(&self.namespace, self.operator, &pods(workers));
    }

    fn await_proxy(&self, what: &str, is_so: impl Fn(&WatchProxy) -> bool) {
        eventually(what, || self.operator.log(), || is_so(self.proxy).then_some(()));
    }

    /// Besides its first pods, the operator has created worker 1 so often again, and the other workers so often.
    fn assert_created(&self, again: u32, others: &[(&str, u32)]) {
        let first = [(MASTER, 1), (WORKERS[0], 1), (WORKERS[1], 1 + again)];
        let wanted: BTreeMap<String, u32> =
            first.iter().chain(others).map(|(pod, times)| ((*pod).to_owned(), *times)).collect();
        let created = creations(self.cluster, self.namespace.name(), "pods");
        assert_eq!(created, wanted, "{}", self.operator.log());
        let now = uids(&self.namespace);
        for pod in [MASTER, WORKERS[0]] {
            assert_eq!(now[pod], self.before[pod], "{pod} was not touched");
        }
        assert_ne!(now[WORKERS[1]], self.before[WORKERS[1]]);
    }
}

/// The pods of the job with so many workers.
fn pods(workers: usize) -> Vec<&'static str> {
    [MASTER].into_iter().chain(WORKERS[..workers].iter().copied()).collect()
}

/// The watches end before and after everything that happens, some in the middle of an answer.
fn closed(job: &Disturbed<'_>) {
    let before = job.proxy.ended();
    for _ in 0..ROUNDS {
        job.proxy.end_watches(Ending::Cut);
        job.lose_worker_1();
        job.proxy.end_watches(Ending::Complete);
        job.scale(3);
        job.proxy.end_watches(Ending::Cut);
        job.await_workers(3);
        job.proxy.end_watches(Ending::Complete);
        job.scale(2);
        job.proxy.end_watches(Ending::Cut);
        job.await_workers(2);
    }
    let ended = job.proxy.ended() - before;
    assert!(ended > ROUNDS as usize, "{ended} watches were ended");
    job.assert_created(ROUNDS, &[(WORKERS[2], ROUNDS)]);
}

/// A pod is lost and the job scaled while every watch is refused.
fn expired(job: &Disturbed<'_>, expiry: Expiry) {
    let breaks = || job.operator.log().matches("a watch broke; it is opened again").count();
    let before = breaks();
    job.proxy.expire(expiry, REFUSALS);
    job.lose_worker_1();
    job.scale(3);
    job.await_proxy("all watches to expire", WatchProxy::all_have_expired);
    job.await_workers(3);
    job.scale(2);
    job.await_workers(2);
    assert!(breaks() > before, "{}", job.operator.log());
    job.assert_created(1, &[(WORKERS[2], 1)]);
}

fn repeated(job: &Disturbed<'_>) {
    job.proxy.deliver(Delivery::Twice);
    let before = job.proxy.repeated();
    for _ in 0..ROUNDS {
        job.lose_worker_1();
        job.scale(3);
        job.await_workers(3);
        job.scale(2);
        job.await_workers(2);
    }
    assert!(job.proxy.repeated() > before);
    job.proxy.deliver(Delivery::Once);
    job.assert_created(ROUNDS, &[(WORKERS[2], ROUNDS)]);
}

/// The operator sees the job change, but neither the pods that it creates nor the one that is lost.
async fn pods_late(job: &Disturbed<'_>) {
    job.proxy.deliver(Delivery::AllBut("pods"));
    job.scale(3);
    job.await_workers(3);
    job.lose_worker_1();
    // It decides again and again meanwhile.
    for note in 0..ROUNDS {
        let before = reconciliations(job.operator).await;
        let note = format!("seen={note}");
        succeed(&mut job.namespace.kubectl(["annotate", "--overwrite", KIND, "j", &note]));
        for attempt in 0.. {
            if reconciliations(job.operator).await > before {
                break;
            }
            assert!(attempt < 1000, "it does not see {note}: {}", job.operator.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    job.await_proxy("an event of a pod to wait", |proxy| proxy.holds_back("pods"));
    job.proxy.deliver(Delivery::Once);
    job.await_workers(3);
    job.assert_created(1, &[(WORKERS[2], 1)]);
}

/// The operator sees nothing for a while, then everything at once.
fn everything_late(job: &Disturbed<'_>) {
    job.proxy.deliver(Delivery::Nothing);
    job.lose_worker_1();
    job.scale(4);
    job.await_proxy("events to wait", |proxy| proxy.holds_back("pods") && proxy.holds_back("elasticjobs"));
    job.proxy.deliver(Delivery::Once);
    job.await_workers(4);
    job.assert_created(1, &[(WORKERS[2], 1), (WORKERS[3], 1)]);
}

/// How often the operator has decided.
async fn reconciliations(operator: &Operator<'_>) -> u64 {
    let (_, metrics) = operator.http("/metrics").await;
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix("flexor_operator_reconciliations_total "));
    values.next().unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_end_expire_repeat_or_lag_neither_lose_nor_double_a_pod() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    install(&cluster, "deploy/default").await;
    let proxy = WatchProxy::start(&cluster).await;
    let kubeconfig = proxy.kubeconfig_of(&cluster, "flexor-system", "flexor-operator").await;
    let operator = Operator::start_with(&cluster, kubeconfig);
    let job = async |hint: &str| Disturbed::start(&cluster, &operator, &proxy, hint).await;
    closed(&job("closed").await);
    expired(&job("expired-event").await, Expiry::Event);
    expired(&job("expired-status").await, Expiry::Status);
    repeated(&job("repeated").await);
    pods_late(&job("pods-late").await).await;
    everything_late(&job("all-late").await);
}
