//! Requests of workers about batches, translated between messages and the ledger.

use std::num::NonZeroU64;
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ledger::{
    Batches, ClientKind, DatasetSpec, GrantId, LeaseOutcome, LeaseRequest, Order, StepSpec, WorkerEnd, WorkerId,
};
use flexor_model::{Reason, Round};
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;

use super::calls::MAX_WAIT;
use crate::data::{AcknowledgedBatches, RecordsOfBatch};
use crate::job::Job;

pub(super) async fn register(job: &Job, dataset: wire::Dataset) -> Result<Answer, wire::Refusal> {
    let spec = spec_of(dataset).map_err(|cause| refusal(&cause))?;
    job.data().register(spec).await.map_err(|cause| refusal(&cause))?;
    Ok(Answer::Done(wire::Done {}))
}

pub(super) async fn lease(job: &Job, worker: &WorkerId, lease: wire::LeaseBatches) -> Result<Answer, wire::Refusal> {
    let asked = LeaseRequest {
        dataset: lease.dataset.into(),
        batches: lease.batches,
        epoch: lease.epoch,
        client: ClientKind::Resuming,
    };
    let wait = Duration::from_millis(lease.wait_ms.into()).min(MAX_WAIT);
    let leased = job.data().lease(worker, &asked, wait).await.map_err(|cause| refusal(&cause))?;
    Ok(Answer::Lease(match leased {
        LeaseOutcome::Lease(lease) => {
            let batches = job.data().records(&lease).into_iter().map(|(number, records)| {
                let step = job.data().step_of(&lease, number);
                match records {
                    RecordsOfBatch::Run { first, count } => {
                        wire::Batch { number, first, count, step, records: Vec::new() }
                    }
                    RecordsOfBatch::Picked { records } => {
                        wire::Batch { number, records, step, ..wire::Batch::default() }
                    }
                }
            });
            let held = held_of(lease.grant, lease.batches);
            let dataset = job.data().number(&lease.dataset);
            // Read after the lease: a lease from before a rewind is void.
            let rewind_epoch = job.servers().rewind_epoch();
            wire::Lease {
                held: Some(held),
                epoch: lease.epoch,
                batches: batches.collect(),
                dataset,
                rewind_epoch,
                ..wire::Lease::default()
            }
        }
        LeaseOutcome::Wait(cause) => wire::Lease { wait: cause.to_string(), ..wire::Lease::default() },
        LeaseOutcome::Finished => wire::Lease { finished: true, ..wire::Lease::default() },
    }))
}

pub(super) async fn acknowledge(
    job: &Job,
    worker: &WorkerId,
    acknowledge: wire::AcknowledgeBatches,
) -> Result<Answer, wire::Refusal> {
    let done = acknowledge.done.unwrap_or_default();
    let accounted = job.acknowledge(worker, acknowledged_of(&done), &acknowledge.versions, acknowledge.durable).await;
    let (records, lsn) = accounted.map_err(|cause| refusal(&cause))?;
    Ok(Answer::Accounted(wire::Accounted { records, lsn: lsn.0 }))
}

pub(super) async fn release(job: &Job, worker: &WorkerId, back: wire::LeasedBatches) -> Result<Answer, wire::Refusal> {
    job.data().release(worker, held(&back), false).await.map_err(|cause| refusal(&cause))?;
    Ok(Answer::Done(wire::Done {}))
}

pub(super) async fn resume(job: &Job, worker: &WorkerId, back: wire::Resume) -> Result<Answer, wire::Refusal> {
    let holds: Vec<(GrantId, Batches)> = back.holds.iter().map(held).collect();
    let acknowledged: Vec<AcknowledgedBatches> = back.acknowledged.iter().map(acknowledged_of).collect();
    job.servers().record_acknowledged(&back.versions).map_err(|cause| refusal(&cause))?;
    let void = job.data().resume(worker, &holds, &acknowledged).await;
    let (void, lsn) = void.map_err(|cause| refusal(&cause))?;
    let void = void.into_iter().map(|(grant, batches)| held_of(grant, batches));
    Ok(Answer::Void(wire::VoidLeases { held: void.collect(), lsn: lsn.0 }))
}

pub(super) async fn evaluate(job: &Job, worker: &WorkerId, asked: wire::EvaluateNext) -> Result<Answer, wire::Refusal> {
    let Some(every) = NonZeroU64::new(asked.every) else {
        let detail = "the request does not say after how many records to evaluate";
        return Err(refusal(&Cause::new(Reason::InvalidValue, detail)));
    };
    let wait = Duration::from_millis(asked.wait_ms.into()).min(MAX_WAIT);
    let due = job.evaluations().next(job.data(), worker, (&asked.dataset, every), wait).await;
    let checkpoints = job.servers().checkpoint_folder().unwrap_or_default();
    Ok(Answer::Evaluation(match due {
        Some(due) => wire::Evaluation { number: Some(due.number), records: due.records, checkpoints },
        None => wire::Evaluation::default(),
    }))
}

pub(super) fn position(job: &Job) -> Answer {
    Answer::Position(wire::Position { position: job.data().position() })
}

pub(super) async fn restore(job: &Job, restore: &wire::RestorePosition) -> Result<Answer, wire::Refusal> {
    let records = job.data().restore(&restore.position).await.map_err(|cause| refusal(&cause))?;
    Ok(Answer::Rewound(wire::Rewound { records }))
}

pub(super) async fn ended(
    job: &Job,
    worker: &WorkerId,
    ending: i32,
    round: Option<Round>,
) -> Result<Answer, wire::Refusal> {
    use wire::worker_ended::Ending as WireEnding;
    let result = match (WireEnding::try_from(ending), round) {
        (Ok(WireEnding::Failed), Some(round)) => job.data().worker_failed(worker, round).await,
        (Ok(WireEnding::Failed), None) => job.data().worker_ended(worker, WorkerEnd::Failed).await,
        (Ok(WireEnding::Lost), _) => job.data().worker_ended(worker, WorkerEnd::Lost).await,
        (Ok(WireEnding::Finished), _) => job.data().worker_ended(worker, WorkerEnd::Finished).await,
        (Ok(WireEnding::Unspecified) | Err(_), _) => {
            Err(Cause::new(Reason::ProtocolViolation, "the request does not say how the worker ended"))
        }
    };
    result.map(|()| Answer::Done(wire::Done {})).map_err(|cause| refusal(&cause))
}

fn held(held: &wire::LeasedBatches) -> (GrantId, Batches) {
    (GrantId(held.lease), Batches::new(held.first, held.count))
}

fn held_of(GrantId(lease): GrantId, Batches { first, count }: Batches) -> wire::LeasedBatches {
    wire::LeasedBatches { lease, first, count, ..wire::LeasedBatches::default() }
}

fn acknowledged_of(done: &wire::LeasedBatches) -> AcknowledgedBatches {
    let (grant, batches) = held(done);
    AcknowledgedBatches { grant, batches, skipped_records: done.skipped_records, step: done.step }
}

fn spec_of(dataset: wire::Dataset) -> Result<DatasetSpec, Cause> {
    use wire::dataset::Order as WireOrder;
    let order = match WireOrder::try_from(dataset.order) {
        Ok(WireOrder::Sequential) => Order::Sequential,
        Ok(WireOrder::ShuffledBatches) => Order::ShuffledBatches { seed: dataset.seed },
        Ok(WireOrder::ShuffledRecords) => Order::ShuffledRecords { seed: dataset.seed },
        Err(_) => {
            let detail =
                format!("dataset {} has the order {}, which this master does not know", dataset.name, dataset.order);
            return Err(Cause::new(Reason::ProtocolViolation, detail));
        }
    };
    let spec = DatasetSpec::new(dataset.name, dataset.records, dataset.batch);
    let spec = spec.map_err(|error| Cause::new(Reason::InvalidValue, error.to_string()))?;
    let steps = dataset.step_batches.and_then(NonZeroU64::new);
    let steps = steps.map(|batches| StepSpec { batches, ahead: dataset.steps_ahead });
    Ok(spec.with_epochs(dataset.epochs).with_order(order).with_steps(steps))
}

fn refusal(cause: &Cause) -> wire::Refusal {
    wire::Refusal { reason: cause.reason.to_string(), detail: cause.message.clone() }
}
