//! Whatever is reported: at most one plan in ten seconds, inside range and ceiling, with its evidence.

use proptest::prelude::*;

use super::*;

/// What happens in a second.
#[derive(Debug, Clone)]
enum Happening {
    Nothing,
    /// Reports are as this seed makes them.
    Garbage(u64),
    Unsteady,
    /// The open plan ends so.
    Ends(PlanState),
    /// A person sets the number of workers or of servers, and keeps or gives back the role.
    Hand {
        workers: bool,
        replicas: u32,
        holds: bool,
    },
    /// The ceiling and the cluster are changed.
    Ceiling(Option<u64>, Option<u64>),
    /// Servers stop or begin to report.
    Foreign(bool),
    /// The work of a batch is another one.
    Work(u32, u32),
    /// Workers are as fast as this function of [`RATES`] says.
    Rate(usize),
}

/// Batches per second of one of so many workers.
const RATES: [fn(u32) -> f64; 4] = [
    |_| 31.0,
    |workers| f64::min(31.0, 40.0 / f64::from(workers)),
    |workers| if workers > 2 { 3.0 } else { 31.0 },
    |workers| 300.0 / f64::from(workers),
];

fn happening() -> impl Strategy<Value = Happening> {
    let state = prop_oneof![
        Just(PlanState::Open),
        Just(PlanState::Succeeded),
        Just(PlanState::NoRoom),
        Just(PlanState::Failed),
    ];
    prop_oneof![
        60 => Just(Happening::Nothing),
        3 => any::<u64>().prop_map(Happening::Garbage),
        2 => Just(Happening::Unsteady),
        2 => state.prop_map(Happening::Ends),
        1 => (any::<bool>(), 0_u32..30, any::<bool>())
            .prop_map(|(workers, replicas, holds)| Happening::Hand { workers, replicas, holds }),
        1 => (prop::option::of(0_u64..100_000), prop::option::of(0_u64..200 * GIBIBYTE))
            .prop_map(|(cpu, bytes)| Happening::Ceiling(cpu, bytes)),
        1 => any::<bool>().prop_map(Happening::Foreign),
        1 => (0_u32..100, 0_u32..100).prop_map(|(worker, server)| Happening::Work(worker, server)),
        1 => (0..RATES.len()).prop_map(Happening::Rate),
    ]
}

/// Numbers that programs report when something is wrong with them.
fn garble(sample: &mut Sample, seed: u64) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let extremes = [0, 1, u64::MAX, u64::MAX / 2, state >> 40, state >> 20];
        extremes[(state >> 60) as usize % extremes.len()]
    };
    if next() % 2 == 0 {
        sample.batches = next();
    }
    let Servers::Measured(servers) = &mut sample.server_pods else { return };
    for pod in sample.worker_pods.iter_mut().chain(servers) {
        let millis = Duration::from_millis;
        pod.load = (next() % 3 != 0).then(|| PodLoad {
            at: millis(next()),
            cpu: millis(next()),
            bytes: next(),
            times: BatchTimes { read: millis(next()), pull: millis(next()), ..BatchTimes::default() },
        });
    }
}

/// What all pods request after a proposal.
fn total_after(proposal: &Proposal, sample: &Sample) -> Allotment {
    let replicas = |role: &ScaledRole| replicas(proposal, role.name.as_str()).unwrap_or(role.replicas);
    let to = Layout { workers: replicas(&sample.workers), servers: replicas(&sample.servers), hot: None };
    proposal.migrate.iter().fold(to.total(sample, None), |sum, migration| {
        let pod = sample.pods().find(|pod| pod.name == migration.pod).expect("only pods that exist migrate");
        let to = Ceiling::from(&migration.resources);
        let more = |to: Option<u64>, now: u64| to.unwrap_or(now).saturating_sub(now);
        sum.plus(Allotment {
            millicores: more(to.millicores, pod.allotment.millicores),
            bytes: more(to.bytes, pod.allotment.bytes),
        })
    })
}

fn check(proposal: &Proposal, sample: &Sample) {
    for role in [&sample.workers, &sample.servers] {
        let Some(to) = replicas(proposal, role.name.as_str()) else { continue };
        let range = role.automatic.expect("only automatic roles change");
        assert!(range.contains(to) && role.held_by.is_none(), "{proposal:?} of {role:?}");
        let is_limited = role.name != sample.workers.name || to <= 4 * (role.replicas + sample.chiefs());
        assert!(is_limited, "{proposal:?} of {role:?}");
    }
    let (before, after) = (Layout::of(sample).total(sample, None), total_after(proposal, sample));
    // What is above the ceiling already may stay, and shrink, but not grow.
    let fits = |most: Option<u64>, before: u64, after: u64| most.is_none_or(|most| after <= most.max(before));
    let Ceiling { millicores, bytes } = sample.ceiling;
    let is_bound = fits(millicores, before.millicores, after.millicores) && fits(bytes, before.bytes, after.bytes);
    // A change that is taken back leads to what was there.
    assert!(
        is_bound || proposal.purpose == Purpose::TakeBack,
        "{before:?} {after:?} {:?} {proposal:?}",
        sample.ceiling
    );
    let reason = proposal.reason();
    let has_evidence = ["measured", " uses "].iter().any(|words| reason.contains(words));
    assert!(has_evidence && !proposal.change.is_empty(), "{reason}");
    assert!(proposal.expected.is_none_or(|expected| expected.is_finite() && expected > 0.0), "{reason}");
}

/// Plays what happens, and returns all decisions that say something.
fn play(happenings: &[Happening]) -> Vec<(u64, Decision)> {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let (mut said, mut proposed_at) = (Vec::new(), None::<u64>);
    for happening in happenings {
        let mut sample = job.next();
        match happening.clone() {
            Happening::Nothing => {}
            Happening::Garbage(seed) => garble(&mut sample, seed),
            Happening::Unsteady => sample.steady = false,
            Happening::Ends(state) => {
                job.sample.plan = job.sample.plan.map(|plan| AutomaticPlan { state, ..plan });
            }
            Happening::Hand { workers, replicas, holds } => {
                let role = if workers { &mut job.sample.workers } else { &mut job.sample.servers };
                role.replicas = replicas.max(u32::from(!workers));
                role.held_by = holds.then(|| "the plan deep-2".to_owned());
                job.resize();
            }
            Happening::Ceiling(millicores, bytes) => job.sample.ceiling = Ceiling { millicores, bytes },
            Happening::Foreign(true) => job.sample.server_pods = Servers::Foreign,
            Happening::Foreign(false) => {
                job.sample.server_pods = Servers::Measured(Vec::new());
                job.resize();
            }
            Happening::Work(worker, server) => {
                job.worker_work = 0.0001 * f64::from(worker);
                job.server_work = 0.0001 * f64::from(server);
            }
            Happening::Rate(which) => job.rate_of = RATES[which],
        }
        let decision = sizer.handle(&sample, job.now());
        if let Some(proposal) = &decision.proposal {
            assert!(proposed_at.is_none_or(|last| job.second >= last + 10), "{proposed_at:?} {}", job.second);
            proposed_at = Some(job.second);
            check(proposal, &sample);
            job.carry_out(proposal);
        }
        if decision != Decision::default() {
            said.push((job.second, decision));
        }
    }
    said
}

proptest! {
    #[test]
    fn every_proposal_keeps_to_its_bounds_and_the_same_reports_lead_to_the_same_ones(
        happenings in prop::collection::vec(happening(), 1..400),
    ) {
        let said = play(&happenings);
        prop_assert_eq!(said, play(&happenings));
    }
}

#[test]
fn a_ceiling_below_what_runs_stops_growth_and_shrinks_nothing() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    job.sample.workers.replicas = 2;
    job.resize();
    job.sample.ceiling = Ceiling { millicores: Some(1000), bytes: Some(GIBIBYTE) };
    assert_eq!(first_decision(&mut sizer, &mut job, 600), None);
}

#[test]
fn roles_without_automatic_sizing_are_left_alone() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    (job.sample.workers.automatic, job.sample.servers.automatic) = (None, None);
    job.sample.ceiling = Ceiling::default();
    assert_eq!(first_decision(&mut sizer, &mut job, 600), None);
    assert!(sizer.pace().is_some(), "it is measured all the same");
}
