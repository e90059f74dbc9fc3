//! What holds in every history of every node.

use std::time::Duration;

use flexor_model::{Quantity, Severity};
use proptest::{option, prelude::*, sample::select};

use super::*;

/// Words that clusters and runtimes use, and some that they do not.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![select(words).prop_map(str::to_owned), "[A-Za-z]{0,12}"])
}

fn observed() -> impl Strategy<Value = ObservedExit> {
    let codes = prop_oneof![select(vec![0, 1, 2, 14, 128, 134, 137, 139, 143, 201, 202, 247]), any::<i32>()];
    let exit = prop_oneof![codes.prop_map(ProgramExit::Code), any::<i32>().prop_map(ProgramExit::Signal)];
    (
        option::of(exit),
        word(&["OOMKilled", "Error", "Completed", "StartError", "ContainerCannotRun", "CreateContainerError"]),
        word(&["Evicted", "Preempting", "NodeLost", "Terminated", "OutOfmemory", "DeadlineExceeded"]),
        word(&["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI"]),
        option::of(select(vec![Deletion::Ours, Deletion::Others])),
        option::of(".{0,500}"),
    )
        .prop_map(|(exit, container_reason, pod_reason, disruption, deletion, error)| ObservedExit {
            exit,
            container_reason,
            pod_reason,
            disruption,
            deletion,
            error,
            failed_at: None,
        })
}

/// What was seen proves that infrastructure was lost, whatever the program says.
fn infrastructure_was_lost(observed: &ObservedExit) -> bool {
    let by_the_pod = ["Evicted", "Preempting", "Preempted", "NodeLost", "Terminated", "OutOfmemory", "OutOfcpu"];
    let taken_on_purpose = observed.deletion == Some(Deletion::Ours);
    let pod_says_so = observed.pod_reason.as_deref().is_some_and(|word| by_the_pod.contains(&word));
    let lost = observed.disruption.is_some() || observed.deletion == Some(Deletion::Others) || pod_says_so;
    lost && !taken_on_purpose
}

fn rules() -> impl Strategy<Value = Rules> {
    (0_u32..6, any::<bool>(), option::of("[0-9]{1,4}Mi")).prop_map(|(limit, critical, least)| Rules {
        limit,
        critical,
        back_off: BackOff::default(),
        least_memory: least.map(|text| text.parse().unwrap()),
    })
}

/// The ends of one node, each with how long it had run, until nothing is relaunched any more.
fn ends() -> impl Strategy<Value = Vec<(ObservedExit, Duration)>> {
    proptest::collection::vec((observed(), (0_u64..200).prop_map(Duration::from_secs)), 1..40)
}

proptest! {
    #[test]
    fn in_every_history_the_rules_hold(
        rules in rules(),
        memory in option::of("[0-9]{1,5}(Mi|M|Gi)?"),
        ends in ends(),
    ) {
        let memory: Option<Quantity> = memory.map(|text| text.parse().unwrap());
        let mut history = NodeHistory { memory, ..NodeHistory::default() };
        for (observed, ran) in ends {
            let exit = classify(&observed);
            let decision = decide(&history, &exit, ran, &rules);
            let after = history.after(&decision, ran, &rules.back_off);

            prop_assert!(!decision.cause().message.is_empty(), "every decision has a reason");
            prop_assert!(after.counted <= rules.limit, "no more relaunches count than the limit allows");
            prop_assert!(after.memory >= history.memory, "memory never shrinks");
            if infrastructure_was_lost(&observed) {
                prop_assert!(matches!(decision, Decision::Relaunch(_)), "a loss is made good: {observed:?}");
                prop_assert_eq!(after.counted, history.counted, "a loss consumes no retry: {:?}", observed);
            }
            match &decision {
                Decision::Relaunch(relaunch) => {
                    prop_assert!(relaunch.after <= rules.back_off.longest);
                    prop_assert_eq!(relaunch.counted, after.counted > history.counted);
                    prop_assert_ne!(relaunch.cause.reason.severity(), Severity::Error, "nothing is lost for good");
                }
                Decision::Final(last) => match last.outcome {
                    Outcome::Succeeded | Outcome::Removed => prop_assert_eq!(exit.kind.cost(), Cost::Nothing),
                    Outcome::JobFailed if exit.kind.cost() == Cost::FailJob => {}
                    Outcome::NodeFailed | Outcome::JobFailed if exit.kind.cost() == Cost::FailNode => {
                        prop_assert_eq!(last.outcome == Outcome::JobFailed, rules.critical);
                    }
                    Outcome::NodeFailed | Outcome::JobFailed => {
                        prop_assert_eq!(last.outcome == Outcome::JobFailed, rules.critical);
                        prop_assert_eq!(history.counted, rules.limit, "it fails only with all retries used up");
                    }
                },
            }
            if matches!(decision, Decision::Final(_)) {
                break;
            }
            history = after;
        }
    }

    #[test]
    fn a_program_that_always_fails_is_retried_exactly_to_the_limit(
        rules in rules(),
        code in (1_i32..126).prop_filter("78 says that trying again is of no use", |code| *code != 78),
    ) {
        let observed = ObservedExit { exit: Some(ProgramExit::Code(code)), ..ObservedExit::default() };
        let mut history = NodeHistory::default();
        let mut relaunches = 0;
        while let decision @ Decision::Relaunch(_) = decide(&history, &classify(&observed), Duration::ZERO, &rules) {
            history = history.after(&decision, Duration::ZERO, &rules.back_off);
            relaunches += 1;
        }
        prop_assert_eq!(relaunches, rules.limit);
    }
}
