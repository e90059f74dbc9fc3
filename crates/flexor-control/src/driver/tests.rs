use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_engine::controller::{ExecutorState, JobStatus, ObservedPod, Planning, PodPhase};
use flexor_engine::nodes::ObservedExit;
use flexor_model::{DnsLabel, Job, JobUid};
use serde_json::json;

use super::*;

const START: UnixTime = UnixTime::from_secs(1000);

/// A world in which pods run as soon as they are created. A test may have creations fail.
struct FakeWorld {
    job: Job,
    namespace: DnsLabel,
    uid: JobUid,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    status: JobStatus,
    pods: BTreeMap<String, ObservedPod>,
    services: BTreeSet<String>,
    events: Vec<Event>,
    executed: usize,
    /// The names of pods that cannot be created.
    refused: BTreeSet<String>,
    passes: usize,
    /// Observing the job hits a defect.
    panics: bool,
    /// How much time has passed.
    later: Duration,
}

impl FakeWorld {
    fn new(workers: u32) -> Self {
        let manifest = json!({
            "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": { "name": "a" },
            "spec": { "distributionStrategy": "AllreduceStrategy", "replicaSpecs": { "worker": {
                "replicas": workers,
                "template": { "spec": { "containers": [{ "name": "main", "image": "python", "command": ["train"] }] } },
            } } },
        });
        let document = manifest::check(manifest.to_string().as_bytes()).documents.remove(0);
        let Verdict::Accepted { subject, .. } = document.verdict else { panic!("{:?}", document.verdict) };
        let Subject::Job(job) = *subject else { panic!("a job") };
        let state = Mutex::default();
        Self { job, namespace: "default".parse().unwrap(), uid: JobUid::from("u"), state }
    }

    fn refuse(&self, pods: &[&str]) {
        self.state.lock().unwrap().refused = pods.iter().map(|pod| (*pod).to_owned()).collect();
    }

    fn messages(&self, reason: Reason) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let events = state.events.iter().filter(|event| event.cause.reason == reason);
        events.map(|event| event.cause.message.clone()).collect()
    }

    fn workers(&self) -> usize {
        self.state.lock().unwrap().pods.values().filter(|pod| pod.role.as_str() == "worker").count()
    }
}

impl Executor for FakeWorld {
    type JobKey = ();
    type Error = String;

    fn now(&self) -> UnixTime {
        START + self.state.lock().unwrap().later
    }

    fn observe<T>(&self, (): &(), view: impl FnOnce(&ObservedJob<'_>) -> T) -> Option<T> {
        let state = self.state.lock().unwrap();
        let pods: Vec<ObservedPod> = state.pods.values().cloned().collect();
        if state.panics {
            drop(state);
            panic!("overflow in a sum");
        }
        Some(view(&ObservedJob {
            job: &self.job,
            generation: 1,
            uid: &self.uid,
            namespace: &self.namespace,
            deleting: false,
            status: &state.status,
            pods: &pods,
            services: &state.services,
            plans: &[],
            released: &BTreeSet::new(),
            closed: None,
            planning: Planning::Unplanned,
            executor: &ExecutorState::default(),
        }))
    }

    async fn execute(&self, (): &(), action: Action) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        state.executed += 1;
        match action {
            Action::SetStatus(status) | Action::NoteStatus(status) => state.status = *status,
            Action::CreatePod(desired) if state.refused.contains(&desired.name) => {
                return Err(format!("pods \"{}\" is forbidden: exceeded quota", desired.name));
            }
            Action::CreatePod(desired) => {
                let pod = ObservedPod {
                    uid: format!("uid of {}", desired.name),
                    name: desired.name.clone(),
                    role: desired.role,
                    id: desired.id,
                    rank: desired.rank,
                    phase: PodPhase::Running,
                    deleting: false,
                    overdue: false,
                    pending: None,
                    end: ObservedExit::default(),
                    started_at: Some(START),
                    finished_at: None,
                };
                state.pods.insert(desired.name, pod);
            }
            Action::CreateService(desired) => _ = state.services.insert(desired.name),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn record(&self, (): &(), event: Event) {
        self.state.lock().unwrap().events.push(event);
    }

    fn pass_finished(&self, (): &()) {
        self.state.lock().unwrap().passes += 1;
    }
}

const UNLIMITED: Pacing = Pacing { status_writes_per_second: None, ..Pacing::CLUSTER };

#[tokio::test]
async fn a_job_is_driven_until_the_controller_has_nothing_left_to_do() {
    let world = FakeWorld::new(3);
    let mut driver = JobDriver::new(UNLIMITED);
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.workers(), 3);
    let (executed, passes) = {
        let state = world.state.lock().unwrap();
        (state.executed, state.passes)
    };
    assert!(passes > 1 && passes < MOST_PASSES, "{passes}");
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.state.lock().unwrap().executed, executed, "nothing is left to do");
    let created = world.messages(Reason::PodWanted);
    assert!(created.iter().all(|message| !message.starts_with("created")), "{created:?}");
}

#[tokio::test]
async fn nothing_is_executed_after_the_last_action_that_a_test_allows() {
    for allowed in 0..6 {
        let world = FakeWorld::new(3);
        let mut left = allowed;
        JobDriver::new(UNLIMITED).run(&world, &(), &mut left).await;
        let state = world.state.lock().unwrap();
        assert!(left == 0 && state.executed <= allowed, "{allowed}: {}", state.executed);
    }
}

#[tokio::test]
async fn an_error_ends_the_pass_is_recorded_once_and_retried() {
    let world = FakeWorld::new(8);
    world.refuse(&["a-edljob-worker-1", "a-edljob-worker-2", "a-edljob-worker-3"]);
    let mut driver = JobDriver::new(UNLIMITED);
    let again = driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(again, Some(START + RETRY_AFTER));
    let made = world.workers();
    assert!(made < 8 - 3, "the batches after the failure were not begun: {made}");
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    let recorded = world.messages(Reason::CreateRefused);
    let message =
        "pods \"a-edljob-worker-1\" is forbidden: exceeded quota; what was decided is tried again every second";
    assert_eq!(recorded, [message], "once, though it failed twice");
    world.refuse(&[]);
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.workers(), 8);
}

#[tokio::test]
async fn a_large_job_has_one_event_per_batch() {
    let world = FakeWorld::new(200);
    JobDriver::new(UNLIMITED).run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.workers(), 200);
    let created = world.messages(Reason::PodWanted);
    assert!(created.len() < 12, "{created:?}");
    assert!(created.iter().any(|message| message.starts_with("created 64 pods: a-edljob-worker-")), "{created:?}");
}

#[tokio::test]
async fn a_lost_pod_and_its_replacement_are_one_event_unless_each_is_to_have_its_own() {
    let separate = Pacing { merge_losses_within: Duration::ZERO, ..UNLIMITED };
    for (pacing, lost) in [(UNLIMITED, 0), (separate, 1)] {
        let world = FakeWorld::new(2);
        let mut driver = JobDriver::new(pacing);
        driver.run(&world, &(), &mut usize::MAX.clone()).await;
        world.state.lock().unwrap().pods.remove("a-edljob-worker-1");
        driver.run(&world, &(), &mut usize::MAX.clone()).await;
        assert_eq!(world.workers(), 2);
        assert_eq!(world.messages(Reason::PodDeleted).len(), lost);
        let created = world.messages(Reason::PodWanted).pop().unwrap();
        assert!(created.starts_with("its slot is filled again (1 restart)"), "{created}");
        assert_eq!(created.contains(": PodDeleted: pod 1 of worker is gone without a trace"), lost == 0, "{created}");
    }
}

#[tokio::test]
async fn a_loss_whose_replacement_does_not_come_has_its_own_event() {
    let world = FakeWorld::new(2);
    let mut driver = JobDriver::new(UNLIMITED);
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    world.state.lock().unwrap().pods.get_mut("a-edljob-worker-1").unwrap().deleting = true;
    let due = driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!((due, world.messages(Reason::PodDeleted).len()), (Some(START + UNLIMITED.merge_losses_within), 0));
    world.state.lock().unwrap().later = UNLIMITED.merge_losses_within;
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.messages(Reason::PodDeleted).len(), 1);
}

#[tokio::test]
async fn a_status_write_that_has_to_wait_says_until_when() {
    let world = FakeWorld::new(3);
    let again = JobDriver::new(Pacing::CLUSTER).run(&world, &(), &mut usize::MAX.clone()).await;
    assert!(again.is_some_and(|at| at > START && at <= START + Duration::from_secs(1)), "{again:?}");
    assert_eq!(world.workers(), 3, "a write that only informs keeps no pod back");
}

#[tokio::test]
async fn a_panic_is_an_event_of_the_job_and_the_job_goes_on_later() {
    let world = FakeWorld::new(2);
    world.state.lock().unwrap().panics = true;
    let mut driver = JobDriver::new(Pacing::CLUSTER);
    for _ in 0..2 {
        let again = driver.run(&world, &(), &mut usize::MAX.clone()).await;
        assert_eq!(again, Some(START + RETRY_AFTER_PANIC));
    }
    let told = world.messages(Reason::ReconcileFailed);
    assert_eq!(told, ["a defect of Flexor, not of the job: overflow in a sum; please report it"], "told once");
    world.state.lock().unwrap().panics = false;
    driver.run(&world, &(), &mut usize::MAX.clone()).await;
    assert_eq!(world.workers(), 2);
}
