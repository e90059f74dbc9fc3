//! The data over plain HTTP and JSON: what `curl` needs to go through a dataset.
//!
//! Every answer is given when what was said is durable, so that a program need not remember anything for the master.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use flexor_engine::Cause;
use flexor_engine::shards::{Asked, Batches, DatasetSpec, Ending, GrantId, Leased, Order, Promise, WorkerId};
use flexor_model::Reason;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::job::Job;

/// Nobody waits longer than this in one call.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The longest body: more than the longest position.
const MAX_BODY: usize = 9 << 20;

/// What is below `/api` about the data.
pub(super) fn routes() -> Router<Job> {
    Router::new()
        .route("/api/datasets", get(list).post(register))
        .route("/api/datasets/{name}", get(show))
        .route("/api/datasets/{name}/lease", post(lease))
        .route("/api/datasets/{name}/acknowledge", post(acknowledge))
        .route("/api/datasets/{name}/give-back", post(give_back))
        .route("/api/position", get(position))
        .route("/api/restore", post(restore))
        .route("/api/workers/{name}/ended", post(ended))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// An answer that says why not, and what to do.
struct Refused(Cause);

impl From<Cause> for Refused {
    fn from(cause: Cause) -> Self {
        Self(cause)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0.reason {
            Reason::UnknownDataset => StatusCode::NOT_FOUND,
            Reason::JournalFull => StatusCode::SERVICE_UNAVAILABLE,
            Reason::InvalidValue | Reason::InvalidPosition | Reason::UnknownEpoch => StatusCode::BAD_REQUEST,
            // What was asked for contradicts what is.
            _ => StatusCode::CONFLICT,
        };
        (status, Json(json!({ "reason": self.0.reason, "error": self.0.message }))).into_response()
    }
}

type Answer = Result<Json<Value>, Refused>;

/// A body of JSON. What cannot be read is refused as everything else is, with a reason.
struct Body<T>(T);

impl<T: DeserializeOwned> FromRequest<Job> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, job: &Job) -> Result<Self, Refused> {
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
        Refused(Cause::new(Reason::UnknownDataset, format!("there is no dataset {name}; POST /api/datasets makes one")))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Register {
    name: String,
    records: u64,
    batch: u64,
    #[serde(default = "once")]
    epochs: Option<u32>,
    #[serde(default)]
    shuffle: Shuffle,
    #[serde(default)]
    seed: u64,
}

/// Without a word about it a dataset is gone through once; `null` is without end.
fn once() -> Option<u32> {
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

async fn register(State(job): State<Job>, Body(asked): Body<Register>) -> Answer {
    let order = match asked.shuffle {
        Shuffle::None => Order::Sequential,
        Shuffle::Batches => Order::ShuffledBatches { seed: asked.seed },
        Shuffle::Records => Order::ShuffledRecords { seed: asked.seed },
    };
    let spec = DatasetSpec::new(asked.name, asked.records, asked.batch)
        .map_err(|error| Cause::new(Reason::InvalidValue, error.to_string()))?;
    let spec = spec.with_epochs(asked.epochs).with_order(order);
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
    /// All that the worker holds. Whatever else was leased to it is free: it never heard of it.
    holds: Option<Vec<HeldBatches>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeldBatches {
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
    let asked = Asked { dataset: name.into(), batches: body.batches, epoch: body.epoch, promise: Promise::Forgets };
    let wait = Duration::from_millis(body.wait_ms).min(MAX_WAIT);
    if let Some(holds) = body.holds {
        let holds: Vec<_> =
            holds.iter().map(|held| (GrantId(held.lease), Batches::new(held.first, held.count))).collect();
        job.data().come_back(&worker, &holds, &[]).await?;
    }
    Ok(Json(match job.data().lease(&worker, &asked, wait).await? {
        Leased::Lease(lease) => {
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
        Leased::Wait(cause) => json!({ "wait": cause.reason, "detail": cause.message }),
        Leased::Finished => json!({ "finished": true }),
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Held {
    worker: String,
    #[serde(default)]
    incarnation: u64,
    lease: u64,
    first: u64,
    #[serde(default = "one")]
    count: u64,
}

impl Held {
    fn batches(&self) -> (GrantId, Batches) {
        (GrantId(self.lease), Batches::new(self.first, self.count))
    }
}

async fn acknowledge(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<Held>) -> Answer {
    let worker = worker(&body.worker, body.incarnation)?;
    job.data().is_of(GrantId(body.lease), &name)?;
    let (records, _) = job.data().acknowledge(&worker, body.batches(), true).await?;
    Ok(Json(json!({ "records": records })))
}

async fn give_back(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<Held>) -> Answer {
    let worker = worker(&body.worker, body.incarnation)?;
    job.data().is_of(GrantId(body.lease), &name)?;
    job.data().give_back(&worker, body.batches(), true).await?;
    Ok(Json(json!({})))
}

async fn position(State(job): State<Job>) -> Json<Value> {
    Json(json!({ "position": job.data().position() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    position: String,
}

async fn restore(State(job): State<Job>, Body(body): Body<Restore>) -> Answer {
    let records = job.data().restore(&body.position).await?;
    Ok(Json(json!({ "rewound": records })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ended {
    #[serde(default)]
    incarnation: u64,
    ending: HowItEnded,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum HowItEnded {
    Lost,
    Failed,
    Finished,
}

async fn ended(State(job): State<Job>, Path(name): Path<String>, Body(body): Body<Ended>) -> Answer {
    let ending = match body.ending {
        HowItEnded::Lost => Ending::Lost,
        HowItEnded::Failed => Ending::Failed,
        HowItEnded::Finished => Ending::Finished,
    };
    job.data().ended(&worker(&name, body.incarnation)?, ending).await?;
    Ok(Json(json!({})))
}

fn worker(name: &str, incarnation: u64) -> Result<WorkerId, Refused> {
    if name.is_empty() || name.len() > 253 {
        let detail = "a worker's name has 1 to 253 characters";
        return Err(Refused(Cause::new(Reason::InvalidValue, detail)));
    }
    Ok(WorkerId::new(name, incarnation))
}
