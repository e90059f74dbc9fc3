//! Plans that a job's master proposes: the operator creates each once, carries it out, and keeps the last ten.

use std::collections::BTreeMap;

use flexor_testbed::{Cluster, ClusterConfig, TestNamespace, cluster_or_skip, skip};
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::automatic_plan::State;
use flexor_wire::master::v1::proposal::Kind;

use super::audit::creations;
use super::guard::Masters;
use super::jobs::{apply, eventually, get, running, served, uids};
use super::played_master::PlayedMaster;
use super::{Operator, turn};
use crate::cluster::installed::succeed;
use crate::program::root;

const JOB: &str = "deepctr-auto-scaling";
const KIND: &str = "elasticjobs.elastic.iml.github.io";
/// The last of the plans that only change the size.
const LAST: u32 = 12;
const KEPT: u32 = 10;
const PROMISE: &str = "3 workers more: 31 → 124 steps/s expected";

const BY_HAND: &str = "
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata: {name: by-hand}
spec: {ownerJob: deepctr-auto-scaling, replicaResourceSpecs: {worker: {replicas: 1}}}
";

/// The job of `docs/tutorials/dlrover-ps.md`, in the namespace of a test.
fn example() -> String {
    let text = std::fs::read_to_string(root().join("examples/deepctr/auto-scaling.yaml")).unwrap();
    let job = text.replace("  namespace: dlrover\n", "");
    assert_ne!(job, text);
    job
}

/// How many workers run beside the master, the chief and the server. Their numbers only grow.
fn running_workers(namespace: &TestNamespace<'_>) -> Option<usize> {
    let (workers, others): (Vec<String>, Vec<String>) =
        running(namespace).into_iter().partition(|pod| pod.contains("-edljob-worker-"));
    let all =
        [format!("{JOB}-edljob-chief-0"), format!("{JOB}-edljob-ps-0"), format!("elasticjob-{JOB}-dlrover-master")];
    (others == all).then_some(workers.len())
}

fn name(number: u32) -> String {
    format!("{JOB}-auto-{number}")
}

/// A plan for so many workers.
fn plan(number: u32, workers: u32, message: &str) -> Kind {
    let role = wire::SizeChange { role: "worker".to_owned(), replicas: Some(workers), ..wire::SizeChange::default() };
    let message = message.to_owned();
    Kind::Plan(wire::ProposedPlan { number, message, roles: vec![role], migrate: Vec::new() })
}

fn result(number: u32, measured: u32) -> Kind {
    Kind::Result(wire::PlanResult { number, message: format!("{PROMISE}, {measured} measured") })
}

/// A job and the operator that serves it.
struct SizedJob<'a> {
    operator: &'a Operator<'a>,
    namespace: &'a TestNamespace<'a>,
}

impl SizedJob<'_> {
    fn await_workers(&self, workers: u32) {
        let explain = || format!("{:?} {}", running(self.namespace), self.operator.log());
        let runs = || running_workers(self.namespace) == usize::try_from(workers).ok();
        eventually(&format!("{workers} workers"), explain, || runs().then_some(()));
    }

    /// The table of `kubectl get scaleplan`: name, job, phase.
    fn plans(&self) -> Vec<[String; 3]> {
        let table = succeed(&mut self.namespace.kubectl(["get", "scaleplan"]));
        let row = |line: &str| {
            let mut columns = line.split_whitespace().map(str::to_owned);
            [(); 3].map(|()| columns.next().unwrap_or_default())
        };
        table.lines().skip(1).map(row).collect()
    }

    fn await_plan(&self, number: u32, phase: &str) {
        let wanted = [name(number), JOB.to_owned(), phase.to_owned()];
        let explain = || format!("{:?}\n{}", self.plans(), self.operator.log());
        eventually(&format!("{wanted:?}"), explain, || self.plans().contains(&wanted).then_some(()));
    }

    fn await_description(&self, number: u32, words: &[&str]) {
        let describe = || succeed(&mut self.namespace.kubectl(["describe", "scaleplan", &name(number)]));
        let explain = || format!("{}\n{}", describe(), self.operator.log());
        eventually(&format!("{words:?}"), explain, || {
            let described = describe();
            words.iter().all(|word| described.contains(word)).then_some(())
        });
    }
}

/// The secret of the only job that has one.
fn token(namespace: &TestNamespace<'_>) -> Token {
    let uid = get(namespace, &[KIND, JOB])["metadata"]["uid"].as_str().unwrap().to_owned();
    let secret = format!("flexor-token-{uid}");
    let words = ["get", "secret", &secret, "-o", "go-template={{.data.token | base64decode}}"];
    Token::parse(&succeed(&mut namespace.kubectl(words))).unwrap()
}

async fn grows(job: &SizedJob<'_>, master: &mut PlayedMaster) {
    let before = master.await_sizing("the pods to run", |sizing| sizing.settled).await;
    let workers = before.workers.unwrap();
    assert_eq!((workers.replicas, workers.held_by.as_str(), before.plan), (0, "", None));
    let first = uids(job.namespace);
    master.propose(plan(0, 3, PROMISE)).await;
    job.await_plan(0, "Succeeded");
    job.await_workers(3);
    let now = uids(job.namespace);
    assert!(first.iter().all(|(pod, uid)| now[pod] == *uid), "{first:?} {now:?}");
    let done = wire::AutomaticPlan { number: 0, state: State::Succeeded.into() };
    master.await_sizing("the plan to be done", |sizing| sizing.plan == Some(done) && sizing.settled).await;
    job.await_description(0, &["PlanDone", PROMISE]);
    master.propose(result(0, 118)).await;
    job.await_description(0, &["PlanMeasured", PROMISE, "expected, 118 measured"]);
}

/// A master repeats its plan on a new feed, until it sees that the plan is there.
async fn is_repeated(job: &SizedJob<'_>, master: &mut PlayedMaster, before: &BTreeMap<String, String>, plan_uid: &str) {
    master.await_feed().await;
    master.propose(plan(0, 3, PROMISE)).await;
    // The operator takes in what is proposed in order: the plan was seen when this shows.
    master.propose(result(0, 119)).await;
    job.await_description(0, &["expected, 119 measured"]);
    assert_eq!(job.plans().len(), 1);
    assert_eq!(uid_of_plan(job.namespace), plan_uid);
    assert_eq!(uids(job.namespace), *before);
}

fn uid_of_plan(namespace: &TestNamespace<'_>) -> String {
    get(namespace, &["scaleplan", &name(0)])["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn the_last_ten_stay(job: &SizedJob<'_>, master: &mut PlayedMaster) {
    for number in 1..=LAST {
        let workers = if number % 2 == 1 { 2 } else { 3 };
        master.propose(plan(number, workers, "")).await;
        let done = wire::AutomaticPlan { number, state: State::Succeeded.into() };
        master.await_sizing("the plan to be done", |sizing| sizing.plan == Some(done) && sizing.settled).await;
        job.await_plan(number, "Succeeded");
        job.await_workers(workers);
    }
    let mut wanted: Vec<String> = (LAST + 1 - KEPT..=LAST).map(name).collect();
    wanted.sort();
    let names = || job.plans().into_iter().map(|[name, ..]| name).collect::<Vec<_>>();
    eventually("the last ten", || format!("{:?}", names()), || (names() == wanted).then_some(()));
}

async fn a_size_that_a_person_has_set_stays(job: &SizedJob<'_>, master: &mut PlayedMaster) {
    apply(job.namespace, BY_HAND);
    job.await_workers(1);
    let held = |sizing: &wire::Sizing| sizing.workers.as_ref().is_some_and(|role| role.held_by == "the plan by-hand");
    master.await_sizing("the size of a person", |sizing| held(sizing) && sizing.settled).await;
    let before = uids(job.namespace);
    master.propose(plan(LAST + 1, 3, PROMISE)).await;
    job.await_plan(LAST + 1, "Failed");
    let words = ["PlanRefused", "worker was set by hand", "flexor scale deepctr-auto-scaling --auto"];
    job.await_description(LAST + 1, &words);
    let failed = wire::AutomaticPlan { number: LAST + 1, state: State::Failed.into() };
    master.await_sizing("the plan to fail", |sizing| sizing.plan == Some(failed) && held(sizing)).await;
    assert_eq!(running_workers(job.namespace), Some(1));
    assert_eq!(uids(job.namespace), before);
    // By whom and since when.
    let target = get(job.namespace, &[KIND, JOB])["status"]["targets"]["worker"].clone();
    assert_eq!(target["setBy"], "scaleplan/by-hand", "{target}");
    assert_eq!(target["replicas"], 1, "{target}");
    assert_eq!(target["message"], "1 replica of worker, as the plan by-hand says");
    let by_hand = get(job.namespace, &["scaleplan", "by-hand"])["status"].clone();
    assert!(by_hand["phase"] == "Succeeded" && by_hand["finishTime"].is_string(), "{by_hand}");
}

fn assert_each_was_created_once(cluster: &Cluster, namespace: &TestNamespace<'_>) {
    let wanted: BTreeMap<String, u32> = (0..=LAST + 1).map(|number| (name(number), 1)).collect();
    assert_eq!(creations(cluster, namespace.name(), "scaleplans"), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_a_master_are_carried_out_once_and_leave_alone_what_a_person_has_set() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    if cluster.namespace_pid().is_none() {
        skip!("needs root: the test answers at the addresses of pods, in a network of its own");
    }
    let mut operator = served(&cluster).await;
    operator.masters = Masters::Played;
    operator.restart();
    let namespace = cluster.namespace("sizes").await.unwrap();
    apply(&namespace, &example());
    SizedJob { operator: &operator, namespace: &namespace }.await_workers(0);
    let mut master = PlayedMaster::start(&cluster, token(&namespace));
    master.await_feed().await;
    grows(&SizedJob { operator: &operator, namespace: &namespace }, &mut master).await;

    let (before, plan_uid) = (uids(&namespace), uid_of_plan(&namespace));
    operator.restart();
    let job = SizedJob { operator: &operator, namespace: &namespace };
    is_repeated(&job, &mut master, &before, &plan_uid).await;
    the_last_ten_stay(&job, &mut master).await;
    a_size_that_a_person_has_set_stays(&job, &mut master).await;
    assert_each_was_created_once(&cluster, &namespace);
}
