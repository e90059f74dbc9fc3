//! The status of a job of each dialect through its life, as its users see it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use flexor_dialects::{EventInput, JobCondition, PlanStatusInput, PodCounts, StatusInput, crds, dialect};
use flexor_engine::Cause;
use flexor_engine::controller::{JobStatus, Phase, PlanPhase, PlanStatus, SetBy, Target};
use flexor_model::{Job, Reason, Resources, RoleKind, RoleName, UnixTime};

use crate::examples;

/// Shows one status after the other, each a minute later, with the conditions of the one before.
struct Story {
    job: Job,
    status: JobStatus,
    pods: BTreeMap<RoleName, PodCounts>,
    plan: Option<&'static str>,
    conditions: Vec<JobCondition>,
    now: UnixTime,
    shown: String,
}

impl Story {
    fn of(name: &str) -> Self {
        let job = examples::jobs().into_iter().find(|job| job.name.as_str() == name).unwrap();
        let target = |replicas| Target {
            replicas,
            resources: Resources::default(),
            set_by: SetBy::Spec,
            generation: 1,
            spec_replicas: replicas,
            wanted: None,
            vacant: BTreeSet::new(),
            promised: BTreeMap::new(),
            cause: Cause::new(Reason::SizeFromSpec, "as the job says"),
        };
        let targets = job.roles.iter().map(|role| (role.name.clone(), target(role.size.initial()))).collect();
        let now = UnixTime::from_secs(1_700_000_000);
        let status = JobStatus { targets, created_at: Some(now), ..JobStatus::default() };
        let (pods, conditions, shown) = (BTreeMap::new(), Vec::new(), String::new());
        Self { job, status, pods, plan: None, conditions, now, shown }
    }

    fn set_pods(&mut self, make: impl Fn(u32) -> PodCounts) {
        let roles = self.job.roles.iter();
        self.pods = roles.map(|role| (role.name.clone(), make(role.size.initial()))).collect();
    }

    fn enter(&mut self, phase: Phase, cause: Option<Cause>) {
        (self.status.phase, self.status.cause) = (phase, cause);
        if phase.is_over() {
            self.status.finished_at = Some(self.now);
        }
    }

    fn show(&mut self, title: &str) {
        let dialect = dialect(&self.job.dialect).unwrap();
        let input = StatusInput {
            job: &self.job,
            generation: 1,
            status: &self.status,
            pods: &self.pods,
            plan: self.plan,
            conditions: &self.conditions,
            now: self.now,
        };
        let mut status = dialect.status(&input);
        let conditions = dialect.conditions(&input);
        // What was decided is the same in all dialects; it is shown once, in the engine's tests.
        assert_eq!(status["flexor"].take()["version"], 1);
        status.as_object_mut().unwrap().remove("flexor");
        let _ = writeln!(self.shown, "# {title}\n{}", serde_json::to_string_pretty(&status).unwrap());
        self.conditions = conditions;
        self.now += Duration::from_secs(60);
    }

    /// Pending, running, scaling, suspended, then over.
    fn tell(mut self, end: Phase, cause: Cause) -> String {
        self.set_pods(|replicas| PodCounts { pending: replicas, ..PodCounts::default() });
        self.show("pending");
        self.set_pods(|replicas| PodCounts { active: replicas, ..PodCounts::default() });
        self.status.started_at = Some(self.now);
        let running = Cause::new(Reason::JobRunning, "its first worker runs");
        self.enter(Phase::Running, Some(running.clone()));
        self.show("running");
        self.plan = Some("plan-0");
        let workers = self.job.role(RoleKind::Worker).unwrap().name.clone();
        let target = self.status.targets.get_mut(&workers).unwrap();
        (target.replicas, target.set_by) = (3, SetBy::Plan("plan-0".to_owned()));
        target.cause = Cause::new(Reason::SizeFromPlan, "3 replicas, as the plan plan-0 says");
        self.show("scaling");
        self.plan = None;
        self.set_pods(|_| PodCounts::default());
        self.enter(Phase::Suspended, Some(Cause::new(Reason::JobSuspended, "its description says so")));
        self.show("suspended");
        self.enter(Phase::Running, Some(running));
        self.set_pods(|replicas| PodCounts { succeeded: replicas, ..PodCounts::default() });
        self.enter(end, Some(cause));
        self.show("over");
        self.shown
    }
}

fn succeeded() -> Cause {
    Cause::new(Reason::JobSucceeded, "the program has ended well on 3 nodes")
}

fn failed() -> Cause {
    Cause::new(Reason::TooFewLeft, "0 of at least 1 worker are left: ProgramError: exit code 1")
}

#[test]
fn a_dlrover_job() {
    insta::assert_snapshot!(Story::of("deepctr-manual-scaling").tell(Phase::Succeeded, succeeded()));
}

#[test]
fn a_dlrover_job_that_fails() {
    insta::assert_snapshot!(Story::of("torch-mnist").tell(Phase::Failed, failed()));
}

#[test]
fn a_torchelastic_job() {
    insta::assert_snapshot!(Story::of("imagenet").tell(Phase::Succeeded, succeeded()));
}

#[test]
fn a_torchelastic_job_that_fails() {
    insta::assert_snapshot!(Story::of("imagenet").tell(Phase::Failed, failed()));
}

#[test]
fn an_edl_job() {
    insta::assert_snapshot!(Story::of("mnist1").tell(Phase::Succeeded, succeeded()));
}

#[test]
fn an_edl_job_that_fails() {
    insta::assert_snapshot!(Story::of("mnist1").tell(Phase::Failed, failed()));
}

#[test]
fn a_condition_says_since_when_a_job_runs_however_often_its_status_is_written() {
    let mut story = Story::of("imagenet");
    story.status.started_at = Some(story.now);
    story.enter(Phase::Running, Some(Cause::new(Reason::JobRunning, "its first worker runs")));
    story.show("once");
    let first = story.conditions.clone();
    story.show("again");
    assert_eq!(story.conditions, first);
    let [running] = &first[..] else { panic!("{first:?}") };
    let shown = (running.type_.as_str(), running.reason.as_deref(), running.message.as_deref());
    assert_eq!(shown, ("Running", Some("ElasticJobRunning"), Some("ElasticJob imagenet is running.")));
}

#[test]
fn kubectl_scale_finds_in_a_status_how_many_workers_there_are_and_which() {
    for (name, count, selector) in [
        // Its one worker is the chief.
        ("deepctr-manual-scaling", 1, "elasticjob-name=deepctr-manual-scaling,replica-type in (chief,worker)"),
        ("torch-mnist", 2, "elasticjob-name=torch-mnist,replica-type=worker"),
        ("imagenet", 2, "group-name=elastic.pytorch.org,job-name=imagenet,replica-type=worker"),
    ] {
        let mut story = Story::of(name);
        story.set_pods(|replicas| PodCounts { active: replicas, succeeded: 7, ..PodCounts::default() });
        story.show("running");
        let status: serde_json::Value = serde_json::from_str(story.shown.split_once('\n').unwrap().1).unwrap();
        let of_job = |kind: &str| kind == "ElasticJob";
        let mut definitions = crds().into_iter().filter(|(_, crd)| of_job(&crd.spec.names.kind));
        let (_, crd) = definitions.find(|(dialect, _)| *dialect == story.job.dialect).unwrap();
        let scale = crd.spec.versions[0].subresources.clone().unwrap().scale.unwrap();
        let at = |path: &str| status.pointer(&path.trim_start_matches(".status").replace('.', "/")).cloned();
        assert_eq!(at(&scale.status_replicas_path), Some(count.into()), "{name}");
        assert_eq!(at(&scale.label_selector_path.unwrap()), Some(selector.into()), "{name}");
    }
}

#[test]
fn the_status_of_a_plan_says_of_which_generation_it_speaks() {
    let dlrover = dialect("dlrover").unwrap();
    let status = PlanStatus {
        phase: PlanPhase::Failed,
        cause: Some(Cause::new(Reason::PlanRefused, "9 replicas of worker are too many")),
        finished_at: Some(UnixTime::from_secs(1_700_000_060)),
    };
    let written = |generation| {
        let input = PlanStatusInput { status: &status, created_at: UnixTime::from_secs(1_700_000_000), generation };
        dlrover.plan_status(input).unwrap()
    };
    assert_eq!(written(Some(3))["observedGeneration"], 3);
    assert!(written(None).get("observedGeneration").is_none());
    assert_eq!(dlrover.read_plan_status(&written(Some(3))), status);
}

#[test]
fn what_the_events_of_each_dialect_say() {
    let causes = [
        (Some("imagenet-worker-0"), Cause::new(Reason::PodWanted, "Worker is to have 2 replicas")),
        (Some("imagenet-worker-1"), Cause::new(Reason::NodeRemoved, "Worker is to have 1 replica")),
        (Some("imagenet-worker-0"), Cause::new(Reason::ProgramError, "exit code 1; retry 1 of 3")),
        (None, succeeded()),
        (None, failed()),
        (None, Cause::new(Reason::PlanRefused, "9 replicas of Worker are outside of 1..3")),
    ];
    let mut shown = String::new();
    for name in ["torch-mnist", "imagenet", "mnist1"] {
        let job = examples::jobs().into_iter().find(|job| job.name.as_str() == name).unwrap();
        let _ = writeln!(shown, "{}", job.dialect);
        for (pod, cause) in &causes {
            let text = dialect(&job.dialect).unwrap().event(&EventInput { job: &job, pod: *pod, cause });
            let about = if text.is_about_job { "job" } else { "pod" };
            let (type_, reporter) = (text.type_, text.reporter);
            let _ = writeln!(shown, "  {type_} {} ({about}, {reporter}): {}", text.reason, text.message);
        }
    }
    insta::assert_snapshot!(shown);
}
