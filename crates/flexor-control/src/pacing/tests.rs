use std::collections::{BTreeMap, BTreeSet};

use flexor_engine::controller::DesiredPod;
use flexor_model::{NodeId, Rank, Resources};
use proptest::prelude::*;

use super::*;

const START: UnixTime = UnixTime::from_secs(1000);

fn create(id: u32) -> Action {
    Action::CreatePod(Box::new(DesiredPod {
        name: format!("a-{id}"),
        role: "worker".parse().unwrap(),
        id: NodeId(id),
        rank: Rank(id),
        relaunches: 0,
        labels: BTreeMap::new(),
        replicas: BTreeMap::new(),
        resources: Resources::default(),
        is_limited: false,
        memory: None,
        place: None,
        cause: Cause::new(Reason::PodWanted, "a test wants it"),
    }))
}

fn set_status() -> Action {
    Action::SetStatus(Box::default())
}

fn record() -> Action {
    Action::Record(Event { pod: None, cause: Cause::new(Reason::JobCreated, "a test says it") })
}

fn pass(actions: Vec<Action>) -> Reconciliation {
    Reconciliation { actions, requeue_at: None, free_creates: BTreeSet::new() }
}

fn millis(millis: u64) -> UnixTime {
    START + Duration::from_millis(millis)
}

/// How many pods each step of a pass creates.
fn batches(steps: &[Step]) -> Vec<usize> {
    let creates = |step: &Step| step.actions.iter().filter(|action| matches!(action, Action::CreatePod(_))).count();
    steps.iter().map(creates).collect()
}

#[test]
fn pods_are_created_in_batches_that_double() {
    let mut pacer = Pacer::new(Pacing { largest_batch: NonZero::new(8).unwrap(), ..Pacing::CLUSTER });
    let paced = pacer.pace(pass((0..30).map(create).collect()), START);
    assert_eq!(batches(&paced.steps), [1, 2, 4, 8, 8, 7]);
}

#[test]
fn an_event_between_two_pods_does_not_end_a_batch_and_anything_else_does() {
    let delete = || Action::DeleteService { name: "s".to_owned() };
    let actions = vec![set_status(), create(0), record(), create(1), record(), create(2), delete(), create(3)];
    let paced = Pacer::new(Pacing::CLUSTER).pace(pass(actions.clone()), START);
    assert_eq!(batches(&paced.steps), [0, 1, 0, 2, 0, 1]);
    assert_eq!(paced.steps[3].actions, [create(1), record(), create(2)]);
    let all: Vec<Action> = paced.steps.into_iter().flat_map(|step| step.actions).collect();
    assert_eq!(all, actions);
}

#[test]
fn only_a_large_pass_has_one_event_per_batch() {
    let events = |pods: u32| {
        let paced = Pacer::new(Pacing::CLUSTER).pace(pass((0..pods).map(create).collect()), START);
        paced.steps[0].creation_events
    };
    assert_eq!((events(50), events(51)), (CreationEvents::PerPod, CreationEvents::PerBatch));
}

#[test]
fn the_event_of_a_batch_names_its_first_and_its_last_pod() {
    let pods = |range: std::ops::Range<u32>| -> Vec<CreatedPod> {
        range
            .map(|id| CreatedPod {
                name: format!("a-{id}"),
                cause: Cause::new(Reason::PodWanted, "a test wants it"),
                loss: None,
            })
            .collect()
    };
    let event = creation_event(&pods(0..128)).unwrap();
    assert_eq!((event.pod, event.cause.message.as_str()), (None, "created 128 pods: a-0 … a-127"));
    let event = creation_event(&pods(7..8)).unwrap();
    assert_eq!((event.pod.as_deref(), event.cause.message.as_str()), (Some("a-7"), "a test wants it"));
    assert_eq!(creation_event(&[]), None);
    let mut lost = pods(0..3);
    lost[1].loss = Some(Cause::new(Reason::Evicted, "low on disk"));
    assert_eq!(creation_event(&lost[1..2]).unwrap().cause.message, "a test wants it: Evicted: low on disk");
    let event = creation_event(&lost).unwrap();
    assert_eq!(event.cause.message, "created 3 pods: a-0 … a-2; 1 in place of lost ones: Evicted: low on disk");
}

#[test]
fn pods_that_need_no_prior_write_are_created_while_the_write_waits() {
    let loss = |rank: u32| {
        let event = Event { pod: None, cause: Cause::new(Reason::PodDeleted, "gone") };
        Action::RecordLoss { event, role: "worker".parse().unwrap(), rank: Rank(rank) }
    };
    let free = Reconciliation {
        free_creates: ["a-1".to_owned()].into(),
        ..pass(vec![set_status(), loss(0), create(0), loss(1), create(1), record()])
    };
    let mut pacer = Pacer::new(Pacing::CLUSTER);
    for at in 0..5 {
        assert_eq!(pacer.pace(free.clone(), millis(at)).steps.len(), 5, "the write need not wait");
    }
    let paced = pacer.pace(free, millis(5));
    let actions: Vec<Action> = paced.steps.into_iter().flat_map(|step| step.actions).collect();
    assert_eq!((actions, paced.requeue_at), (vec![loss(1), create(1)], Some(millis(1000))));
}

#[test]
fn a_write_that_only_informs_keeps_its_distance() {
    let mut pacer = Pacer::new(Pacing::CLUSTER);
    assert_eq!(pacer.pace(pass(vec![set_status(), record()]), START).steps.len(), 2);
    let soon = pacer.pace(pass(vec![set_status(), record()]), millis(50));
    assert_eq!(soon, Paced { steps: Vec::new(), requeue_at: Some(millis(200)) });
    assert_eq!(pacer.pace(pass(vec![set_status()]), millis(200)).steps.len(), 1);
}

#[test]
fn a_write_that_a_pod_waits_for_comes_at_once_while_the_second_allows_it() {
    let mut pacer = Pacer::new(Pacing::CLUSTER);
    for at in 0..5 {
        let paced = pacer.pace(pass(vec![set_status(), create(0)]), millis(at));
        assert_eq!(paced.steps.len(), 2, "{at}");
    }
    let sixth = Reconciliation { requeue_at: Some(millis(400)), ..pass(vec![set_status(), create(0)]) };
    assert_eq!(pacer.pace(sixth.clone(), millis(5)), Paced { steps: Vec::new(), requeue_at: Some(millis(400)) });
    assert_eq!(pacer.pace(sixth, millis(1000)).steps.len(), 2);
}

#[test]
fn what_writes_no_status_is_never_held_back() {
    let mut pacer = Pacer::new(Pacing::CLUSTER);
    for at in 0..20 {
        assert_eq!(pacer.pace(pass(vec![create(0)]), millis(at)).steps.len(), 1);
    }
}

#[test]
fn without_a_limit_every_write_comes_at_once() {
    let mut pacer = Pacer::new(Pacing { status_writes_per_second: None, ..Pacing::CLUSTER });
    for _ in 0..100 {
        assert_eq!(pacer.pace(pass(vec![set_status()]), START).steps.len(), 1);
    }
}

/// A pass of any actions, as the controller may decide them: the status write comes first.
fn any_pass() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![(0..100_u32).prop_map(create), Just(record())];
    (any::<bool>(), prop::collection::vec(action, 0..12)).prop_map(|(writes, mut actions)| {
        if writes {
            actions.insert(0, set_status());
        }
        actions
    })
}

proptest! {
    #[test]
    fn at_most_five_writes_fall_into_any_second_and_none_is_held_back_for_ever(
        passes in prop::collection::vec((0..400_u64, any_pass()), 1..60),
    ) {
        let mut pacer = Pacer::new(Pacing::CLUSTER);
        let (mut now, mut writes) = (START, Vec::new());
        for (wait, actions) in passes {
            now += Duration::from_millis(wait);
            let is_empty = actions.is_empty();
            let mut paced = pacer.pace(pass(actions.clone()), now);
            if paced.steps.is_empty() && !is_empty {
                // The whole pass waits, and comes at the time that was promised.
                prop_assert!(actions.contains(&set_status()));
                let at = paced.requeue_at.unwrap();
                prop_assert!(at > now && at <= now + Duration::from_secs(1));
                now = at;
                paced = pacer.pace(pass(actions.clone()), now);
            }
            let executed: Vec<Action> = paced.steps.into_iter().flat_map(|step| step.actions).collect();
            prop_assert_eq!(&executed, &actions);
            if executed.contains(&set_status()) {
                writes.push(now);
            }
        }
        for six in writes.windows(6) {
            prop_assert!(six[5].saturating_sub(six[0]) >= Duration::from_secs(1), "{:?}", six);
        }
    }
}
