//! `paddlecloud logs`.

use anyhow::anyhow;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};

use super::LogsArgs;
use crate::exit::{Exit, Refused};
use crate::kubernetes::{Connection, block_on, refusal};
use crate::output;

/// Prints the end of each trainer's log under the name of its pod.
pub(super) fn run(args: &LogsArgs) -> anyhow::Result<Exit> {
    block_on(async { read(&args.cluster.connect().await?, args, output::text).await })?;
    Ok(Exit::Success)
}

/// Passes each trainer's log to `sink` as soon as it is there: a job may have hundreds.
async fn read(
    cluster: &Connection,
    args: &LogsArgs,
    mut sink: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let trainers = pods.list(&ListParams::default().labels(&super::get::trainers_of(&args.job))).await;
    let mut names: Vec<String> = trainers.map_err(refusal)?.iter().map(ResourceExt::name_any).collect();
    names.retain(|name| args.w.as_ref().is_none_or(|wanted| wanted == name));
    if names.is_empty() {
        let what = args.w.as_ref().map_or("trainers".to_owned(), |pod| format!("trainer {pod}"));
        return Err(Refused(anyhow!("job {} has no {what}", args.job)).into());
    }
    names.sort_by_key(|name| super::get::natural(name));
    for name in names {
        let log = pods.logs(&name, &LogParams { tail_lines: Some(args.n), ..LogParams::default() }).await;
        let log = match log {
            Ok(log) => log,
            // A container that has not started has no log.
            Err(kube::Error::Api(status)) if status.code == 400 => format!("({})", status.message),
            Err(error) => return Err(refusal(error)),
        };
        sink(&format!("==={name}===\n{}\n", log.trim_end_matches('\n')))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::extract::{Path, Query};
    use axum::http::StatusCode;
    use axum::routing::get;
    use axum::{Json, Router};
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::ClusterArgs;

    type Words = Query<HashMap<String, String>>;

    /// A refusal as an API server writes it.
    fn refused(code: StatusCode, message: &str) -> (StatusCode, String) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": message, "code": code.as_u16(),
        });
        (code, status.to_string())
    }

    async fn list(Path(namespace): Path<String>, Query(words): Words) -> Json<Value> {
        let is_ours = namespace == "edl" && words["labelSelector"] == "paddle-job=mnist1";
        let numbers: &[u32] = if is_ours { &[0, 10, 9] } else { &[] };
        let named = |number: &u32| json!({ "metadata": { "name": format!("mnist1-trainer-{number}") } });
        let items: Vec<Value> = numbers.iter().map(named).collect();
        Json(json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items }))
    }

    /// Pod 0 has written twenty lines, pod 9 has not started, and pod 10 has printed nothing.
    async fn log(Path((_, pod)): Path<(String, String)>, Query(words): Words) -> (StatusCode, String) {
        let most: usize = words["tailLines"].parse().unwrap();
        match pod.as_str() {
            "mnist1-trainer-0" => (StatusCode::OK, (20 - most..20).map(|step| format!("step {step}\n")).collect()),
            "mnist1-trainer-10" => (StatusCode::OK, String::new()),
            _ => refused(StatusCode::BAD_REQUEST, "container \"trainer\" is waiting to start: ContainerCreating"),
        }
    }

    async fn forbidden() -> (StatusCode, String) {
        refused(StatusCode::FORBIDDEN, "pods/log is forbidden")
    }

    /// What the command prints of a job in a cluster of three trainers, and how it ends.
    fn printed(router: Router, job: &str, n: i64, w: Option<&str>) -> (String, Result<(), String>) {
        let cluster = ClusterArgs { kubeconfig: None, namespace: None };
        let args = LogsArgs { job: job.to_owned(), n, w: w.map(str::to_owned), cluster };
        let mut text = String::new();
        let ended = block_on(async {
            let cluster = Connection { client: kube::Client::new(router, "default"), namespace: "edl".to_owned() };
            let sink = |log: &str| {
                text.push_str(log);
                Ok(())
            };
            read(&cluster, &args, sink).await
        });
        (text, ended.map_err(|error| output::with_causes(&error)))
    }

    fn cluster() -> Router {
        let pods = "/api/v1/namespaces/{namespace}/pods";
        Router::new().route(pods, get(list)).route(&format!("{pods}/{{pod}}/log"), get(log))
    }

    #[test]
    fn the_last_lines_of_each_trainer_stand_under_its_name_in_the_order_of_numbers() {
        let waits = "===mnist1-trainer-9===\n(container \"trainer\" is waiting to start: ContainerCreating)\n";
        let all = format!("===mnist1-trainer-0===\nstep 18\nstep 19\n{waits}===mnist1-trainer-10===\n\n");
        assert_eq!(printed(cluster(), "mnist1", 2, None), (all, Ok(())));
        assert_eq!(printed(cluster(), "mnist1", 10, Some("mnist1-trainer-9")), (waits.to_owned(), Ok(())));
        let (last, _) = printed(cluster(), "mnist1", 1, Some("mnist1-trainer-0"));
        assert_eq!(last, "===mnist1-trainer-0===\nstep 19\n");
    }

    #[test]
    fn a_job_or_a_trainer_that_is_not_there_and_missing_rights_are_told() {
        let told = |router: Router, job: &str, w: Option<&str>| match printed(router, job, 10, w) {
            (text, Err(error)) if text.is_empty() => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(cluster(), "mnist2", None), "job mnist2 has no trainers");
        let gone = told(cluster(), "mnist1", Some("mnist1-trainer-7"));
        assert_eq!(gone, "job mnist1 has no trainer mnist1-trainer-7");
        let pods = "/api/v1/namespaces/{namespace}/pods";
        let without_rights = Router::new().route(pods, get(list)).fallback(forbidden);
        assert_eq!(told(without_rights, "mnist1", None), "pods/log is forbidden");
    }
}
