//! The rules, told as the claims they make.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_model::{
    CriticalNodes, FailureBudget, IdRule, Pattern, PodTemplate, Program, Quantity, Rank, Reason, Resources, Role,
    RoleKind, RoleNaming, RolePriority, RoleSize, Strategy,
};
use serde_json::json;

use super::*;

const AT_ONCE: Duration = Duration::from_millis(50);
const A_MOMENT: Duration = Duration::from_secs(5);
const AN_HOUR: Duration = Duration::from_secs(3600);

/// A node with its rules, whose ends are told one after the other.
struct Story {
    history: NodeHistory,
    rules: Rules,
}

impl Story {
    fn of(role: &Role, strategy: Strategy) -> Self {
        let memory = role.template.main().requests().memory();
        let rules = Rules::of(role, Rank(1), strategy, &Resources::default());
        Self { history: NodeHistory { memory, ..NodeHistory::default() }, rules }
    }

    /// An all-reduce worker with the usual limit.
    fn of_worker() -> Self {
        Self::of(&role(RoleKind::Worker), Strategy::AllReduce)
    }

    fn ends(&mut self, observed: &ObservedExit, ran: Duration) -> Decision {
        let decision = decide(&self.history, &classify(observed), ran, &self.rules);
        self.history = self.history.after(&decision, ran, &self.rules.back_off);
        decision
    }

    fn is_relaunched(&mut self, observed: &ObservedExit) -> Relaunch {
        match self.ends(observed, AN_HOUR) {
            Decision::Relaunch(relaunch) => relaunch,
            Decision::Final(last) => panic!("{observed:?} was final: {}", last.cause),
        }
    }

    fn is_over(&mut self, observed: &ObservedExit) -> Final {
        match self.ends(observed, AN_HOUR) {
            Decision::Final(last) => last,
            Decision::Relaunch(relaunch) => panic!("{observed:?} was relaunched: {}", relaunch.cause),
        }
    }

    /// So many relaunches that count, then the end.
    fn is_retried(&mut self, times: u32, observed: &ObservedExit) -> Final {
        for retry in 1..=times {
            let relaunch = self.is_relaunched(observed);
            assert!(relaunch.counted, "{}", relaunch.cause);
            assert!(relaunch.cause.message.contains(&format!("retry {retry} of {times}")), "{}", relaunch.cause);
        }
        self.is_over(observed)
    }
}

fn role(kind: RoleKind) -> Role {
    let container = json!({"name": "main", "resources": {"limits": {"memory": "12Gi"}}});
    Role {
        name: "worker".parse().unwrap(),
        kind,
        size: RoleSize::fixed(3),
        program: Program::Foreign,
        template: PodTemplate::new(json!({"spec": {"containers": [container]}}), "main").unwrap(),
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerNode(3),
        critical: CriticalNodes::Usual,
        naming: RoleNaming { pod: Pattern::of("{job}-{id}"), ids: IdRule::Rank, labels: BTreeMap::new() },
        service: None,
        ports: Vec::new(),
        env: Vec::new(),
        leading_args: Vec::new(),
    }
}

fn exit(code: i32) -> ObservedExit {
    ObservedExit { exit: Some(ProgramExit::Code(code)), ..ObservedExit::default() }
}

/// An exit with a message of the program.
fn says(code: i32, message: &str) -> ObservedExit {
    ObservedExit { error: Some(message.to_owned()), ..exit(code) }
}

/// A container that could not be started.
fn starts(code: i32, message: &str) -> ObservedExit {
    ObservedExit { container_reason: Some("StartError".to_owned()), ..says(code, message) }
}

fn out_of_memory() -> ObservedExit {
    ObservedExit { container_reason: Some("OOMKilled".to_owned()), ..exit(137) }
}

fn pod_says(word: &str) -> ObservedExit {
    ObservedExit { pod_reason: Some(word.to_owned()), ..exit(1) }
}

fn disrupted(word: &str) -> ObservedExit {
    ObservedExit { disruption: Some(word.to_owned()), ..exit(1) }
}

fn deleted_by(whom: Deletion) -> ObservedExit {
    ObservedExit { deletion: Some(whom), ..exit(1) }
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn every_end_has_its_kind() {
    let signal = |number| ObservedExit { exit: Some(ProgramExit::Signal(number)), ..ObservedExit::default() };
    let container = |word: &str| ObservedExit { container_reason: Some(word.to_owned()), ..ObservedExit::default() };
    let cases = [
        (exit(0), ExitKind::Succeeded),
        (exit(1), ExitKind::ProgramError),
        (exit(134), ExitKind::ProgramError),
        (exit(139), ExitKind::ProgramError),
        (exit(77), ExitKind::ProgramError),
        (exit(78), ExitKind::ProgramRefused),
        (exit(126), ExitKind::ProgramRefused),
        (exit(127), ExitKind::ProgramRefused),
        (says(2, "train.py: error: unrecognized arguments: --bad"), ExitKind::ProgramRefused),
        (says(2, "python3: can't open file 'train.py': [Errno 2] No such file"), ExitKind::ProgramRefused),
        (says(2, "the data is damaged"), ExitKind::ProgramError),
        (says(1, "train.py: error: unrecognized arguments: --bad"), ExitKind::ProgramError),
        (starts(127, "no command 'train'"), ExitKind::CannotRun),
        (starts(126, "'train' may not be executed"), ExitKind::CannotRun),
        (starts(128, "runc: exec: \"train\": executable file not found in $PATH"), ExitKind::CannotRun),
        (starts(128, "too many processes"), ExitKind::ProgramError),
        (signal(11), ExitKind::ProgramError),
        (exit(137), ExitKind::Killed),
        (exit(143), ExitKind::Killed),
        (signal(9), ExitKind::Killed),
        (signal(15), ExitKind::Killed),
        (out_of_memory(), ExitKind::OutOfMemory),
        (container("OOMKilled"), ExitKind::OutOfMemory),
        (exit(247), ExitKind::OutOfMemory),
        (exit(14), ExitKind::Hardware),
        (exit(201), ExitKind::Hardware),
        (exit(202), ExitKind::Hardware),
        (container("StartError"), ExitKind::ProgramError),
        (container("CreateContainerError"), ExitKind::CannotRun),
        (pod_says("Preempting"), ExitKind::Preempted),
        (disrupted("PreemptionByScheduler"), ExitKind::Preempted),
        (pod_says("Evicted"), ExitKind::Evicted),
        (disrupted("EvictionByEvictionAPI"), ExitKind::Evicted),
        (pod_says("NodeLost"), ExitKind::MachineLost),
        (pod_says("Terminated"), ExitKind::MachineLost),
        (disrupted("DeletionByTaintManager"), ExitKind::MachineLost),
        (pod_says("OutOfcpu"), ExitKind::Rejected),
        (pod_says("UnexpectedAdmissionError"), ExitKind::Rejected),
        (pod_says("DeadlineExceeded"), ExitKind::DeadlineExceeded),
        (pod_says("SomethingElse"), ExitKind::ProgramError),
        (deleted_by(Deletion::Others), ExitKind::Deleted),
        (deleted_by(Deletion::Ours), ExitKind::Removed),
        (ObservedExit::default(), ExitKind::Deleted),
    ];
    for (observed, kind) in &cases {
        assert_eq!(classify(observed).kind, *kind, "{observed:?}");
    }
    for kind in ExitKind::ALL {
        assert!(cases.iter().any(|(_, covered)| covered == kind), "{kind:?} has no case");
    }
}

#[test]
fn a_launcher_that_exits_with_1_because_its_pod_is_taken_away_costs_no_retry() {
    // torchrun answers SIGTERM with exit code 1, whoever sent it.
    for observed in [pod_says("Evicted"), disrupted("PreemptionByScheduler"), deleted_by(Deletion::Others)] {
        assert!(!Story::of_worker().is_relaunched(&observed).counted, "{observed:?}");
    }
}

#[test]
fn a_pod_that_ends_with_0_because_it_is_taken_away_has_not_succeeded() {
    let observed = ObservedExit { disruption: Some("PreemptionByScheduler".to_owned()), ..exit(0) };
    assert_eq!(Story::of_worker().is_relaunched(&observed).cause.reason, Reason::Preempted);
}

#[test]
fn exit_1_is_retried_to_the_limit() {
    let last = Story::of_worker().is_retried(3, &exit(1));
    assert_eq!((last.outcome, last.cause.reason), (Outcome::NodeFailed, Reason::RetriesExhausted));
    assert_eq!(last.cause.message, "ProgramError: exit code 1; all retries are used up, 3 of 3; its log says more");
}

#[test]
fn an_all_reduce_oom_is_retried_with_more_memory() {
    let mut story = Story::of_worker();
    let asked: Vec<String> = (0..3)
        .map(|_| story.is_relaunched(&out_of_memory()).memory.map_or_else(String::new, |memory| memory.to_string()))
        .collect();
    assert_eq!(asked, ["24Gi", "48Gi", "96Gi"], "no clamp of 8Gi a time, no ceiling of 64Gi");
    assert_eq!(story.is_over(&out_of_memory()).cause.reason, Reason::RetriesExhausted);
}

#[test]
fn what_a_plan_gives_by_now_is_not_taken_back_after_an_oom() {
    let mut story = Story::of_worker();
    let planned = Resources::from_iter([("memory", quantity("64Gi"))]);
    story.rules = Rules::of(&role(RoleKind::Worker), Rank(1), Strategy::AllReduce, &planned);
    assert_eq!(story.is_relaunched(&out_of_memory()).memory, Some(quantity("64Gi")));
}

#[test]
fn memory_that_nothing_limits_cannot_be_doubled() {
    let mut story = Story::of_worker();
    story.history.memory = None;
    let relaunch = story.is_relaunched(&out_of_memory());
    assert_eq!((relaunch.counted, relaunch.memory), (true, None));
}

#[test]
fn killed_and_preempted_never_count() {
    let mut story = Story::of_worker();
    for _ in 0..20 {
        for observed in [exit(137), exit(143), pod_says("Preempting"), disrupted("PreemptionByScheduler")] {
            assert!(!story.is_relaunched(&observed).counted, "{observed:?}");
        }
    }
    assert_eq!(story.is_retried(3, &exit(1)).outcome, Outcome::NodeFailed, "all three retries were still there");
}

#[test]
fn exit_codes_that_torchelastic_calls_permanent_are_retried_to_the_backoff_limit() {
    for code in [1, 2, 128, 139] {
        let role = Role { failures: FailureBudget::PerRole(3), ..role(RoleKind::Worker) };
        let last = Story::of(&role, Strategy::AllReduce).is_retried(3, &exit(code));
        assert!(last.cause.message.contains(&format!("exit code {code}")), "{}", last.cause);
    }
}

#[test]
fn a_program_that_cannot_be_started_is_not_tried_again() {
    for code in [126, 127] {
        let last = Story::of_worker().is_over(&exit(code));
        assert_eq!(last.cause.reason, Reason::ProgramRefused, "{}", last.cause);
    }
}

#[test]
fn a_limit_of_0_means_no_retry_but_losses_are_still_made_good() {
    let role = Role { failures: FailureBudget::PerNode(0), ..role(RoleKind::Worker) };
    let mut story = Story::of(&role, Strategy::AllReduce);
    assert!(!story.is_relaunched(&pod_says("Evicted")).counted);
    assert_eq!(story.is_over(&exit(1)).outcome, Outcome::NodeFailed);
}

#[test]
fn a_program_that_says_so_is_not_tried_again() {
    let told = ObservedExit { error: Some("no such column".to_owned()), ..exit(78) };
    let said = "exit code 78; no such column; trying again would change nothing";
    let last = Story::of(&role(RoleKind::Worker), Strategy::AllReduce).is_over(&told);
    assert_eq!((last.outcome, last.cause.to_string()), (Outcome::NodeFailed, format!("ProgramRefused: {said}")));
    let last = Story::of(&role(RoleKind::Chief), Strategy::ParameterServer).is_over(&told);
    let critical = format!("CriticalNodeFailed: ProgramRefused: {said}");
    assert_eq!((last.outcome, last.cause.to_string()), (Outcome::JobFailed, critical));
}

#[test]
fn what_can_never_run_is_not_tried_again() {
    let observed = ObservedExit {
        container_reason: Some("CreateContainerError".to_owned()),
        error: Some("no command".to_owned()),
        ..ObservedExit::default()
    };
    let last = Story::of(&role(RoleKind::Worker), Strategy::AllReduce).is_over(&observed);
    assert_eq!((last.outcome, last.cause.reason), (Outcome::JobFailed, Reason::CannotRun));
    assert!(last.cause.message.contains("no command"), "{}", last.cause);
}

#[test]
fn a_critical_node_takes_the_job_with_it() {
    for kind in [RoleKind::Chief, RoleKind::ParameterServer, RoleKind::Evaluator, RoleKind::Master] {
        let last = Story::of(&role(kind), Strategy::ParameterServer).is_retried(3, &exit(1));
        assert_eq!((last.outcome, last.cause.reason), (Outcome::JobFailed, Reason::CriticalNodeFailed), "{kind:?}");
    }
}

#[test]
fn which_workers_are_critical_follows_from_the_manifest() {
    let rules = |critical, rank, strategy| {
        let rules =
            Rules::of(&Role { critical, ..role(RoleKind::Worker) }, Rank(rank), strategy, &Resources::default());
        (rules.critical, rules.limit)
    };
    assert_eq!(rules(CriticalNodes::Usual, 0, Strategy::ParameterServer), (true, 3));
    assert_eq!(rules(CriticalNodes::Usual, 1, Strategy::ParameterServer), (false, 3));
    assert_eq!(rules(CriticalNodes::Usual, 0, Strategy::AllReduce), (false, 3));
    assert_eq!(rules(CriticalNodes::All, 2, Strategy::AllReduce), (true, 3));
    assert_eq!(rules(CriticalNodes::None, 0, Strategy::ParameterServer), (false, 3));
    let ranks = CriticalNodes::Ranks([(Rank(2), 7)].into());
    assert_eq!(rules(ranks.clone(), 2, Strategy::AllReduce), (true, 7));
    assert_eq!(rules(ranks, 0, Strategy::AllReduce), (false, 3));
}

#[test]
fn a_node_that_was_taken_away_or_has_succeeded_is_not_relaunched() {
    let mut story = Story::of_worker();
    assert_eq!(story.is_over(&deleted_by(Deletion::Ours)).outcome, Outcome::Removed);
    assert_eq!(story.is_over(&exit(0)).outcome, Outcome::Succeeded);
}

#[test]
fn a_crash_loop_waits_longer_each_time_and_a_good_run_ends_it() {
    let mut story = Story::of_worker();
    story.rules.limit = u32::MAX;
    let mut wait = |ran| match story.ends(&exit(1), ran) {
        Decision::Relaunch(relaunch) => relaunch.after.as_secs(),
        Decision::Final(last) => panic!("{}", last.cause),
    };
    assert_eq!([(); 10].map(|()| wait(A_MOMENT)), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!([wait(AN_HOUR), wait(A_MOMENT), wait(A_MOMENT)], [1, 1, 2]);
}

#[test]
fn a_lost_pod_is_replaced_at_once_unless_it_is_lost_as_soon_as_it_starts() {
    let mut story = Story::of_worker();
    let mut wait = |ran| match story.ends(&pod_says("OutOfcpu"), ran) {
        Decision::Relaunch(relaunch) => relaunch.after.as_secs(),
        Decision::Final(last) => panic!("{}", last.cause),
    };
    assert_eq!([wait(A_MOMENT), wait(A_MOMENT), wait(A_MOMENT)], [0, 0, 0], "however often");
    assert_eq!([wait(AN_HOUR), wait(AT_ONCE), wait(AT_ONCE), wait(AT_ONCE)], [0, 0, 1, 2]);
    assert_eq!([wait(AN_HOUR), wait(AN_HOUR)], [0, 0]);
}

#[test]
fn the_root_cause_that_the_program_left_behind_is_told_on_one_short_line() {
    let error = format!("RuntimeError:\n  no such file\u{7} {}", "x".repeat(1000));
    let told = classify(&ObservedExit { error: Some(error), ..exit(1) }).detail;
    assert!(told.starts_with("exit code 1; RuntimeError: no such file xxx"), "{told}");
    assert!(told.ends_with('…') && told.chars().count() < 430, "{told}");
    let evicted = ObservedExit { error: Some("b is more important".to_owned()), ..pod_says("Preempted") };
    assert_eq!(classify(&evicted).to_string(), "Preempted: the cluster says Preempted; b is more important");
    let stale = classify(&ObservedExit { error: Some("an earlier failure".to_owned()), ..exit(0) });
    assert_eq!(stale.to_string(), "ProgramSucceeded: exit code 0");
}

#[test]
fn only_a_failure_without_a_root_cause_points_to_the_log() {
    let last = |error: Option<&str>, reason: Option<&str>| {
        let (error, container_reason) = (error.map(str::to_owned), reason.map(str::to_owned));
        Story::of_worker().is_retried(3, &ObservedExit { error, container_reason, ..exit(1) }).cause.message
    };
    let points_to_log = |message: &str| message.ends_with("; its log says more");
    assert!(points_to_log(&last(None, None)));
    assert!(points_to_log(&last(None, Some("Odd; very"))), "a word of the runtime is no root cause");
    let known = last(Some("ValueError: no labels"), None);
    assert_eq!(known, "ProgramError: exit code 1; ValueError: no labels; all retries are used up, 3 of 3");
}

#[test]
fn a_fault_of_the_program_has_the_name_of_its_signal() {
    assert_eq!(classify(&exit(139)).detail, "exit code 139 (SIGSEGV)");
    assert_eq!(classify(&exit(134)).detail, "exit code 134 (SIGABRT)");
    assert_eq!(classify(&exit(137)).detail, "exit code 137");
}

#[test]
fn a_program_that_is_missing_is_told_once_and_fails_the_job() {
    let missing = starts(127, "no command 'train': no folder of PATH has it");
    let last = Story::of_worker().is_over(&missing);
    assert_eq!((last.outcome, last.cause.reason), (Outcome::JobFailed, Reason::CannotRun));
    assert_eq!(last.cause.message, "exit code 127, StartError; no command 'train': no folder of PATH has it");
    let refused = Story::of_worker().is_over(&says(2, "train.py: error: unrecognized arguments: --bad"));
    assert_eq!((refused.outcome, refused.cause.reason), (Outcome::NodeFailed, Reason::ProgramRefused));
}

#[test]
fn a_history_survives_being_stored() {
    let history = NodeHistory { counted: 2, short_runs: 1, memory: Some(quantity("24Gi")) };
    let text = serde_json::to_string(&history).unwrap();
    assert_eq!(text, r#"{"counted":2,"shortRuns":1,"memory":"24Gi"}"#);
    assert_eq!(serde_json::from_str::<NodeHistory>(&text).unwrap(), history);
}
