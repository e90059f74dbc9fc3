//! Requests of workers about batches: the ledger's answers as messages.

use std::num::NonZeroU64;
use std::time::Duration;

use flexor_engine::Because;
use flexor_engine::shards::{
    Asked, Batches, DatasetError, DatasetSpec, Ending, GrantId, Leased, Order, Promise, Stepping, WorkerId,
};
use flexor_model::{Reason, Round};
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;

use super::calls::MAX_WAIT;
use crate::data::{Done, RecordsOfBatch};
use crate::job::Job;

pub(super) async fn register(job: &Job, dataset: wire::Dataset) -> Result<Answer, wire::Refusal> {
    let spec = spec_of(dataset).map_err(|error| refusal(&Because::new(Reason::InvalidValue, error.to_string())))?;
    job.data().register(spec).await.map_err(|because| refusal(&because))?;
    Ok(Answer::Done(wire::Done {}))
}

pub(super) async fn lease(job: &Job, worker: &WorkerId, lease: wire::LeaseBatches) -> Result<Answer, wire::Refusal> {
    let asked =
        Asked { dataset: lease.dataset.into(), batches: lease.batches, epoch: lease.epoch, promise: Promise::Replays };
    let wait = Duration::from_millis(lease.wait_ms.into()).min(MAX_WAIT);
    let leased = job.data().lease(worker, &asked, wait).await.map_err(|because| refusal(&because))?;
    Ok(Answer::Lease(match leased {
        Leased::Lease(lease) => {
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
            // Looked at behind the lease: what was leased before everything went back is nobody's any more.
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
        Leased::Wait(because) => wire::Lease { wait: because.to_string(), ..wire::Lease::default() },
        Leased::Finished => wire::Lease { finished: true, ..wire::Lease::default() },
    }))
}

pub(super) async fn acknowledge(
    job: &Job,
    worker: &WorkerId,
    acknowledge: wire::AcknowledgeBatches,
) -> Result<Answer, wire::Refusal> {
    let done = acknowledge.done.unwrap_or_default();
    let accounted = job.data().acknowledge(worker, said(&done), acknowledge.durable).await;
    let (records, lsn) = accounted.map_err(|because| refusal(&because))?;
    Ok(Answer::Accounted(wire::Accounted { records, lsn: lsn.0 }))
}

pub(super) async fn give_back(job: &Job, worker: &WorkerId, back: wire::Held) -> Result<Answer, wire::Refusal> {
    job.data().give_back(worker, held(&back), false).await.map_err(|because| refusal(&because))?;
    Ok(Answer::Done(wire::Done {}))
}

pub(super) async fn come_back(job: &Job, worker: &WorkerId, back: wire::ComeBack) -> Result<Answer, wire::Refusal> {
    let holds: Vec<(GrantId, Batches)> = back.holds.iter().map(held).collect();
    let acknowledged: Vec<Done> = back.acknowledged.iter().map(said).collect();
    let void = job.data().come_back(worker, &holds, &acknowledged).await;
    let (void, lsn) = void.map_err(|because| refusal(&because))?;
    let void = void.into_iter().map(|(grant, batches)| held_of(grant, batches));
    Ok(Answer::Void(wire::Void { held: void.collect(), lsn: lsn.0 }))
}

pub(super) async fn evaluate(job: &Job, worker: &WorkerId, asked: wire::EvaluateNext) -> Result<Answer, wire::Refusal> {
    let Some(every) = NonZeroU64::new(asked.every) else {
        let detail = "after how many records the model is measured is not said";
        return Err(refusal(&Because::new(Reason::InvalidValue, detail)));
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
    let records = job.data().restore(&restore.position).await.map_err(|because| refusal(&because))?;
    Ok(Answer::Rewound(wire::Rewound { records }))
}

pub(super) async fn ended(
    job: &Job,
    worker: &WorkerId,
    ending: i32,
    round: Option<Round>,
) -> Result<Answer, wire::Refusal> {
    use wire::worker_ended::Ending as Said;
    let told = match (Said::try_from(ending), round) {
        (Ok(Said::Failed), Some(round)) => job.data().failed(worker, round).await,
        (Ok(Said::Failed), None) => job.data().ended(worker, Ending::Failed).await,
        (Ok(Said::Lost), _) => job.data().ended(worker, Ending::Lost).await,
        (Ok(Said::Finished), _) => job.data().ended(worker, Ending::Finished).await,
        (Ok(Said::Unspecified) | Err(_), _) => {
            Err(Because::new(Reason::ProtocolViolation, "how the worker ended is not said"))
        }
    };
    told.map(|()| Answer::Done(wire::Done {})).map_err(|because| refusal(&because))
}

fn held(held: &wire::Held) -> (GrantId, Batches) {
    (GrantId(held.lease), Batches::new(held.first, held.count))
}

fn held_of(GrantId(lease): GrantId, Batches { first, count }: Batches) -> wire::Held {
    wire::Held { lease, first, count, ..wire::Held::default() }
}

fn said(done: &wire::Held) -> Done {
    let (grant, batches) = held(done);
    Done { grant, batches, left_out: done.left_out, step: done.step }
}

fn spec_of(dataset: wire::Dataset) -> Result<DatasetSpec, DatasetError> {
    use wire::dataset::Order as Said;
    let order = match dataset.order() {
        Said::Sequential => Order::Sequential,
        Said::ShuffledBatches => Order::ShuffledBatches { seed: dataset.seed },
        Said::ShuffledRecords => Order::ShuffledRecords { seed: dataset.seed },
    };
    let spec = DatasetSpec::new(dataset.name, dataset.records, dataset.batch)?;
    let steps = dataset.step_batches.and_then(NonZeroU64::new);
    let steps = steps.map(|batches| Stepping { batches, ahead: dataset.steps_ahead });
    Ok(spec.with_epochs(dataset.epochs).with_order(order).with_steps(steps))
}

fn refusal(because: &Because) -> wire::Refusal {
    wire::Refusal { reason: because.reason.to_string(), detail: because.detail.clone() }
}
