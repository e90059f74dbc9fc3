//! The training status of a job: the world, the furthest step, the records, the parameter servers. The master feed sends
//! it to the controller, which shows it to people.

use flexor_engine::rendezvous::MemberState;
use flexor_wire::master::v1 as wire;

use crate::data::DatasetStatus;
use crate::job::{Job, Reports};
use crate::run_status::RunStatus;
use crate::servers::{ServerStatus, ServersStatus};

/// The metric with which nodes report their training step.
const STEP: &str = "step";

/// The present training status of a job.
pub(crate) fn of(job: &Job) -> wire::TrainingStatus {
    let status = job.status();
    let world = status.runs.iter().find(|run| run.run == job.name()).filter(|run| run.round.is_some());
    wire::TrainingStatus {
        round: world.and_then(|run| run.round),
        nodes: world.map_or(0, |run| u32::try_from(run.world_size).unwrap_or(u32::MAX)),
        meeting: world.is_some_and(is_in_rendezvous),
        // With parameter servers, present or past, each batch of any worker is a step of the one model. What workers count
        // is their own share.
        step: match status.servers.is_some() || job.servers().with_members(|members| members.map().epoch.0 > 0) {
            true => steps(&status.datasets),
            false => job.with_reports(|reports| furthest(reports)),
        },
        program_failures: status.runs.iter().map(|run| run.program_failures).max().unwrap_or(0),
        records: (!status.datasets.is_empty()).then(|| records(&status.datasets)),
        learning: status.learning.map(Into::into),
        evaluations: status.evaluations.map(Into::into),
        servers: status.servers.map(servers),
        journal_loss: job
            .journal_loss()
            .map(|loss| wire::JournalLoss { damage: loss.is_damage, detail: loss.detail.clone() }),
        journal_failure: job.journal_failure().unwrap_or_default(),
        pace: job.sizing().published().borrow().pace.clone(),
    }
}

/// Whether nodes wait for one another.
fn is_in_rendezvous(run: &RunStatus) -> bool {
    let waits = |state: MemberState| matches!(state, MemberState::Joined | MemberState::Away);
    !run.closed && (run.restart.is_some() || run.members.iter().any(|member| waits(member.state)))
}

fn furthest(reports: &Reports) -> Option<f64> {
    reports.metrics.values().filter_map(|metrics| metrics.get(STEP).copied()).max_by(f64::total_cmp)
}

#[expect(clippy::cast_precision_loss, reason = "a number for people to read")]
fn steps(datasets: &[DatasetStatus]) -> Option<f64> {
    accounted_batches(datasets).map(|batches| batches as f64)
}

/// The number of accounted batches; `None` without data.
pub(crate) fn accounted_batches(datasets: &[DatasetStatus]) -> Option<u64> {
    let of_each = datasets.iter().map(|DatasetStatus { spec, totals, .. }| {
        let finished = u64::from(totals.epochs_finished);
        let left = totals.accounted.saturating_sub(finished * spec.records);
        finished * spec.batches() + left.div_ceil(spec.batch.get())
    });
    let batches = of_each.sum();
    (!datasets.is_empty()).then_some(batches)
}

fn servers(status: ServersStatus) -> wire::PsClusterStatus {
    let ServersStatus {
        epoch,
        servers,
        unowned,
        restorations,
        last_restoration,
        redundant,
        settled,
        checkpoints,
        updates,
        ..
    } = status;
    let (went_on_from, passed_over, failure) = checkpoints
        .map(|checkpoints| (checkpoints.went_on_from, checkpoints.passed_over, checkpoints.failure))
        .unwrap_or_default();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let server = |server: ServerStatus| {
        let ServerStatus { name, incarnation, address, partitions, copies, load } = server;
        wire::PsServerStatus {
            name,
            incarnation,
            here: address.is_some(),
            partitions: count(partitions),
            copies: count(copies),
            rows: load.rows,
            bytes: load.bytes,
            pulls: load.pulls,
            pushes: load.pushes,
            cpu_seconds: load.cpu_seconds,
            pulls_per_second: load.pulls_per_second,
            pushes_per_second: load.pushes_per_second,
            cpus: load.cpus,
            longest_freeze_seconds: load.longest_freeze_seconds,
        }
    };
    wire::PsClusterStatus {
        epoch: epoch.0,
        unowned: count(unowned),
        redundant,
        settled,
        servers: servers.into_iter().map(server).collect(),
        updates: updates.map(Into::into),
        restorations,
        last_restoration: last_restoration.unwrap_or_default(),
        went_on_from: went_on_from.unwrap_or_default(),
        passed_over,
        checkpoint_failure: failure.unwrap_or_default(),
    }
}

fn records(datasets: &[DatasetStatus]) -> wire::Records {
    let mut sum = wire::Records { finished: true, ..wire::Records::default() };
    for DatasetStatus { spec, totals, skipped_records, finished, .. } in datasets {
        sum.expected += totals.expected;
        sum.accounted += totals.accounted;
        sum.quarantined += totals.quarantined;
        sum.repeated += totals.repeated_at_most;
        sum.rewound += totals.rewound;
        sum.reopened += totals.reopened_at_most;
        sum.skipped_records += skipped_records;
        sum.finished &= finished;
        let all = spec.epochs.map_or(totals.expected, |epochs| spec.records.saturating_mul(epochs.into()));
        sum.total = sum.total.saturating_add(all);
    }
    sum
}
