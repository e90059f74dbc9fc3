//! The master's HTTP API for people and probes.
//!
//! `/live`, `/ready` and `/metrics` are open, as probes and Prometheus expect. `/api` is served on the gRPC port and
//! needs the job's token; what browsers can be made to send is refused ([`browser_guard`]).

mod browser_guard;
mod data;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

pub(crate) use self::browser_guard::AllowedHosts;
use crate::job::Job;
use crate::journal::Health;
use crate::metrics;

/// Routes of probes and metrics.
pub(crate) fn probes(job: Job) -> Router {
    Router::new()
        .route("/live", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(show_metrics))
        .with_state(job)
}

/// Routes below `/api`, which need the token and one of these hosts.
pub(crate) fn api(job: Job, hosts: Arc<AllowedHosts>) -> Router {
    Router::new()
        .route("/api/status", get(|State(job): State<Job>| async move { Json(job.status()) }))
        .route("/api/events", get(events))
        .route("/api/expected", post(set_expected))
        .route("/api/gone/{name}", post(drop_pod))
        .route("/api/retry", post(retry))
        .route("/api/nodes/{name}/metrics", post(take_metrics))
        // People try these paths first, so they answer with a hint.
        .route("/metrics", get(show_metrics))
        .merge(data::routes())
        // Without these routes the gRPC services would answer with a gRPC error.
        .route("/", any(not_found))
        .route("/api", any(not_found))
        .route("/api/{*rest}", any(not_found))
        .layer(middleware::from_fn_with_state((job.clone(), hosts), browser_guard::refuse_browsers))
        .layer(middleware::from_fn_with_state(job.clone(), require_token))
        .with_state(job)
}

async fn not_found(request: Request) -> Response {
    let error =
        format!("{} does not exist; see /api/status for the job, /api/datasets for its data", request.uri().path());
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}

async fn ready(State(job): State<Job>) -> Response {
    match &*job.journal().health().borrow() {
        Health::Writable => "ok\n".into_response(),
        Health::Full { error, .. } | Health::Ended(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
        }
    }
}

async fn show_metrics(State(job): State<Job>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics::render(&job) {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[derive(Deserialize)]
struct EventsQuery {
    #[serde(default = "latest")]
    limit: usize,
}

fn latest() -> usize {
    100
}

async fn events(State(job): State<Job>, Query(query): Query<EventsQuery>) -> Response {
    let decisions: Vec<_> = {
        let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
        let skip = decisions.latest.len().saturating_sub(query.limit);
        decisions.latest.iter().skip(skip).cloned().collect()
    };
    let reported: Vec<_> = job.with_reports(|reports| {
        let skip = reports.events.len().saturating_sub(query.limit);
        reports.events.iter().skip(skip).cloned().collect()
    });
    Json(json!({ "decisions": decisions, "reported": reported })).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    nodes: Option<u32>,
}

async fn set_expected(State(job): State<Job>, Json(Expected { nodes }): Json<Expected>) -> Response {
    job.with(|store, now, out| store.expect(job.run(), nodes, now, out));
    Json(json!({ "expected": nodes })).into_response()
}

async fn drop_pod(State(job): State<Job>, Path(name): Path<String>) -> Response {
    if job.drop_pod(&name, "reported over /api") {
        return Json(json!({ "gone": name })).into_response();
    }
    let error = format!("no member, pod or host is called {name}");
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}

async fn retry(State(job): State<Job>) -> Response {
    job.with(|store, now, out| store.reopen(job.run(), now, out));
    Json(json!({})).into_response()
}

/// Numbers that a program reports for its node. The status shows `step` as steps per second.
async fn take_metrics(
    State(job): State<Job>,
    Path(name): Path<String>,
    Json(values): Json<HashMap<String, f64>>,
) -> Response {
    let (now, rewind_epoch) = (job.clock().now(), job.servers().rewind_epoch());
    let taken = job.with_reports(|reports| {
        reports.learning.add(&values, now, rewind_epoch);
        reports.take_metrics(&name, values)
    });
    match taken {
        Ok(()) => Json(json!({})).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response(),
    }
}

async fn require_token(State(job): State<Job>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    match job.token() {
        Some(token) if !token.is_carried_by(given) => {
            let error = "send the job's token: curl -H \"Authorization: Bearer $(cat TOKEN_FILE)\" …";
            (StatusCode::UNAUTHORIZED, Json(json!({ "error": error }))).into_response()
        }
        Some(_) | None => next.run(request).await,
    }
}
