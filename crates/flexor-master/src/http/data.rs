//! The data API over HTTP and JSON: all that `curl` needs to process a dataset.
//!
//! A request is answered when its effect is durable, so clients need not remember anything for the master.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use flexor_engine::Cause;
use flexor_engine::ledger::{
    Batches, ClientKind, DatasetSpec, GrantId, LeaseOutcome, LeaseRequest, Order, WorkerEnd, WorkerId,
};
use flexor_model::Reason;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::job::Job;

/// The longest wait of one call.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The longest body; it exceeds the longest position.
const MAX_BODY: usize = 9 << 20;

/// Routes below `/api` for the data.
pub(super) fn routes() -> Router<Job> {
    Router::new()
        .route("/api/datasets", get(list).post(register))
        .route("/api/datasets/{name}", get(show))
        .route("/api/datasets/{name}/lease", post(lease))
        .route("/api/datasets/{name}/acknowledge", post(acknowledge))
        .route("/api/datasets/{name}/release", post(release))
        .route("/api/position", get(position))
        .route("/api/restore", post(restore))
        .route("/api/workers/{name}/ended", post(ended))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// A refusal with its reason and what to do.
struct RefusalResponse(Cause);

impl From<Cause> for RefusalResponse {
    fn from(cause: Cause) -> Self {
        Self(cause)
    }
}

impl IntoResponse for RefusalResponse {
    fn into_response(self) -> Response {
        let status = match self.0.reason {
            Reason::UnknownDataset => StatusCode::NOT_FOUND,
            Reason::JournalFull => StatusCode::SERVICE_UNAVAILABLE,
            Reason::InvalidValue | Reason::InvalidPosition | Reason::UnknownEpoch => StatusCode::BAD_REQUEST,
            // The request conflicts with the state.
            _ => StatusCode::CONFLICT,
        };
        (status, Json(json!({ "reason": self.0.reason, "error": self.0.message }))).into_response()
    }
}

type Answer = Result<Json<Value>, RefusalResponse>;

/// A JSON body. An unreadable one is refused with a reason, like every request.
struct Body<T>(T);

impl<T: DeserializeOwned> FromRequest<Job> for Body<T> {
    type Rejection = RefusalResponse;

    async fn from_request(request: Request, job: &Job) -> Result<Self, RefusalResponse> {
        let read = Json::<T>::from_request(request, job).await;
        let Json(body) = read.map_err(|error| Cause::new(Reason::InvalidValue, error.body_text()))?;
        Ok(Self(body))
    }
}

async fn list(State(job): State<Job>) -> Json<Value> {
    Json(json!({ "datasets": job.data().status() }))
}

async fn show(State(job): State<Job>, Path(name): Path<String>) -> Answer {
    let found = job.data().status().into_iter().find(|dataset| *dataset.spec.name == *name);
    found.map(|dataset| Json(json!(dataset))).ok_or_else(|| {
        RefusalResponse(Cause::new(
            Reason::UnknownDataset,
            format!("dataset {name} is not registered; register it with POST /api/datasets"),
        ))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegisterBody {
    name: String,
    records: u64,
    batch: u64,
    #[serde(default = "default_epochs")]
    epochs: Option<u32>,
    #[serde(default)]
    shuffle: Shuffle,
    #[serde(default)]
    seed: u64,
}

/// The default is one epoch; `null` means without end.
fn default_epochs() -> Option<u32> {
    Some(1)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Shuffle {
    #[default]
    None,
    Batches,
    Records,
}

async fn register(State(job): State<Job>, Body(request): Body<RegisterBody>) -> Answer {
    let order = match request.shuffle {
        Shuffle::None => Order::Sequential,
        Shuffle::Batches => Order::ShuffledBatches { seed: request.seed },
        Shuffle::Records => Order::ShuffledRecords { seed: request.seed },
    };
    let spec = DatasetSpec::new(request.name, request.records, request.batch)
        .map_err(|error| Cause::new(Reason::InvalidValue, error.to_string()))?;
    let spec = spec.with_epochs(request.epochs).with_order(order);
    let name = spec.name.clone();
    job.data().register(spec).await?;
    show(State(job), Path(name.to_string())).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeaseBody {
    worker: String,
    #[serde(default)]
    incarnation: u64,
    #[serde(default = "one")]
    batches: u64,
    epoch: Option<u32>,
    #[serde(default)]
    wait_ms: u64,
    /// All batches that the worker holds. Other leases of the worker become free, because it never learned of them.
    holds: Option<Vec<HeldLease>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeldLease {
    lease: u64,
    first: u64,
    #[serde(default = "one")]
    count: u64,
}

fn one() -> u64 {
    1
}

async fn lease(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<LeaseBody>) -> Answer {
    let worker = worker(&body.worker, body.incarnation)?;
    let request =
        LeaseRequest { dataset: name.into(), batches: body.batches, epoch: body.epoch, client: ClientKind::Stateless };
    let wait = Duration::from_millis(body.wait_ms).min(MAX_WAIT);
    if let Some(holds) = body.holds {
        let holds: Vec<_> =
            holds.iter().map(|held| (GrantId(held.lease), Batches::new(held.first, held.count))).collect();
        job.data().resume(&worker, &holds, &[]).await?;
    }
    Ok(Json(match job.data().lease(&worker, &request, wait).await? {
        LeaseOutcome::Lease(lease) => {
            let batches: Vec<Value> = job
                .data()
                .records(&lease)
                .into_iter()
                .map(|(number, records)| {
                    let mut batch = json!(records);
                    batch["batch"] = number.into();
                    batch
                })
                .collect();
            let Batches { first, count } = lease.batches;
            json!({ "lease": lease.grant, "epoch": lease.epoch, "first": first, "count": count, "batches": batches })
        }
        LeaseOutcome::Wait(cause) => json!({ "wait": cause.reason, "detail": cause.message }),
        LeaseOutcome::Finished => json!({ "finished": true }),
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeasedBatchesBody {
    worker: String,
    #[serde(default)]
    incarnation: u64,
    lease: u64,
    first: u64,
    #[serde(default = "one")]
    count: u64,
}

impl LeasedBatchesBody {
    fn batches(&self) -> (GrantId, Batches) {
        (GrantId(self.lease), Batches::new(self.first, self.count))
    }
}

async fn acknowledge(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<LeasedBatchesBody>) -> Answer {
    let worker = worker(&body.worker, body.incarnation)?;
    job.data().check_dataset_of(GrantId(body.lease), &name)?;
    let (records, _) = job.data().acknowledge(&worker, body.batches(), true).await?;
    Ok(Json(json!({ "records": records })))
}

async fn release(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<LeasedBatchesBody>) -> Answer {
    let worker = worker(&body.worker, body.incarnation)?;
    job.data().check_dataset_of(GrantId(body.lease), &name)?;
    job.data().release(&worker, body.batches(), true).await?;
    Ok(Json(json!({})))
}

async fn position(State(job): State<Job>) -> Json<Value> {
    Json(json!({ "position": job.data().position() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreBody {
    position: String,
}

async fn restore(State(job): State<Job>, Body(body): Body<RestoreBody>) -> Answer {
    let records = job.data().restore(&body.position).await?;
    Ok(Json(json!({ "rewound": records })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorkerEndedBody {
    #[serde(default)]
    incarnation: u64,
    ending: EndingBody,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum EndingBody {
    Lost,
    Failed,
    Finished,
}

async fn ended(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<WorkerEndedBody>) -> Answer {
    let ending = match body.ending {
        EndingBody::Lost => WorkerEnd::Lost,
        EndingBody::Failed => WorkerEnd::Failed,
        EndingBody::Finished => WorkerEnd::Finished,
    };
    job.data().worker_ended(&worker(&name, body.incarnation)?, ending).await?;
    Ok(Json(json!({})))
}

fn worker(name: &str, incarnation: u64) -> Result<WorkerId, RefusalResponse> {
    if name.is_empty() || name.len() > 253 {
        let detail = "a worker's name must have 1 to 253 bytes";
        return Err(RefusalResponse(Cause::new(Reason::InvalidValue, detail)));
    }
    Ok(WorkerId::new(name, incarnation))
}
