//! The calls of the API: each request is checked, handed to the cluster, and answered.

use std::pin::Pin;

use flexor_model::{DnsLabel, NameError};
use flexor_wire::local::v1::apply_request::Meaning;
use flexor_wire::local::v1::local_server::Local;
use flexor_wire::local::v1::{
    Applied, ApplyRequest, Changes, DeleteRequest, Deleted, KillRequest, Killed, LogBytes, LogsRequest, Objects,
    Outcome, Resource, ResourceSelector,
};
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{cluster_info, job_metrics, logs, notes, objects, resource_watch, usage};
use crate::cluster::{ApiError, ApplyOutcome, Cluster, JobKey};
use crate::objects::{Object, ObjectKind};

/// The service of one cluster.
pub(super) struct Service {
    cluster: Cluster,
    /// Turns true when watches are to end.
    closed: watch::Receiver<bool>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    pub(super) fn new(cluster: Cluster, closed: watch::Receiver<bool>) -> Self {
        Self { cluster, closed }
    }
}

#[tonic::async_trait]
impl Local for Service {
    type WatchStream = Answers<Changes>;
    type LogsStream = Answers<LogBytes>;

    async fn list(&self, request: Request<ResourceSelector>) -> Result<Response<Objects>, Status> {
        let selector = request.into_inner();
        let found = match selector.resource() {
            Resource::PodMetrics => usage::measure(&self.cluster, &selector.namespace).await,
            Resource::JobMetrics => job_metrics::list(&self.cluster, &selector.namespace),
            Resource::Notes => notes::list(&self.cluster, &selector.namespace).await,
            Resource::Cluster => vec![cluster_info::object(&self.cluster)],
            Resource::Unspecified => return Err(unknown_resource(selector.resource)),
            other => objects::list(&self.cluster, other, &selector.namespace),
        };
        let json = found.into_iter().map(|object| object.json.to_string()).collect();
        Ok(Response::new(Objects { json }))
    }

    async fn watch(&self, request: Request<ResourceSelector>) -> Result<Response<Self::WatchStream>, Status> {
        let selector = request.into_inner();
        let only_listed = [Resource::PodMetrics, Resource::JobMetrics, Resource::Notes, Resource::Cluster];
        if only_listed.contains(&selector.resource()) {
            return Err(Status::invalid_argument("this resource can be listed, but not watched"));
        }
        if selector.resource() == Resource::Unspecified {
            return Err(unknown_resource(selector.resource));
        }
        Ok(Response::new(Box::pin(resource_watch::start(self.cluster.clone(), selector, self.closed.clone()))))
    }

    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<Applied>, Status> {
        let request = request.into_inner();
        let manifest: Value = serde_json::from_str(&request.manifest).map_err(unreadable)?;
        if !manifest["metadata"].is_object() {
            return Err(Status::invalid_argument("the manifest has no metadata"));
        }
        let applied = match request.meaning {
            Some(Meaning::Job(job)) => self.cluster.apply(serde_json::from_str(&job).map_err(unreadable)?, manifest),
            Some(Meaning::Plan(plan)) => {
                self.cluster.apply_plan(serde_json::from_str(&plan).map_err(unreadable)?, manifest)
            }
            None => match Object::read(&manifest) {
                Some(Ok(object)) => self.cluster.apply_object(object),
                Some(Err(errors)) => {
                    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    return Err(Status::invalid_argument(errors.join("; ")));
                }
                None => return Err(Status::invalid_argument("a laptop cluster has no objects of this kind")),
            },
        };
        let outcome = match applied.map_err(refused)? {
            ApplyOutcome::Created => Outcome::Created,
            ApplyOutcome::Changed => Outcome::Configured,
            ApplyOutcome::Unchanged => Outcome::Unchanged,
        };
        Ok(Response::new(Applied { outcome: outcome.into() }))
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<Deleted>, Status> {
        let request = request.into_inner();
        let (resource, name) = (request.resource(), &request.name);
        let namespace = namespace(&request.namespace)?;
        let uid = match resource {
            Resource::Jobs => {
                let name =
                    name.parse().map_err(|error: NameError| Status::invalid_argument(format!("{name} {error}")))?;
                self.cluster.delete_job(&JobKey { namespace, name }).map(|uid| uid.to_string())
            }
            Resource::Plans => self.cluster.delete_plan(&namespace, name).map(|()| String::new()),
            Resource::Pods => self.cluster.delete_pod_named(&namespace, name),
            Resource::ConfigMaps => self.cluster.delete_object(ObjectKind::ConfigMap, &namespace, name),
            Resource::Secrets => self.cluster.delete_object(ObjectKind::Secret, &namespace, name),
            Resource::PriorityClasses => self.cluster.delete_object(ObjectKind::PriorityClass, &namespace, name),
            Resource::Unspecified
            | Resource::Events
            | Resource::PodMetrics
            | Resource::JobMetrics
            | Resource::Notes
            | Resource::Cluster => {
                return Err(Status::invalid_argument("jobs, plans, pods and what jobs refer to can be deleted"));
            }
        };
        Ok(Response::new(Deleted { uid: uid.map_err(refused)? }))
    }

    async fn kill(&self, request: Request<KillRequest>) -> Result<Response<Killed>, Status> {
        let request = request.into_inner();
        let namespace = namespace(&request.namespace)?;
        let signal = Signal::from_named_raw(request.signal)
            .ok_or_else(|| Status::invalid_argument(format!("there is no signal {}", request.signal)))?;
        self.cluster.signal(&namespace, &request.pod, named(&request.container), signal).map_err(refused)?;
        Ok(Response::new(Killed {}))
    }

    async fn logs(&self, request: Request<LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let namespace = namespace(&request.namespace)?;
        let log = logs::find(&self.cluster, &namespace, &request.pod, named(&request.container)).map_err(refused)?;
        let range = logs::LogRange { tail: request.tail, follow: request.follow };
        Ok(Response::new(Box::pin(logs::start(self.cluster.clone(), log, range, self.closed.clone()))))
    }
}

fn namespace(text: &str) -> Result<DnsLabel, Status> {
    text.parse().map_err(|error: NameError| Status::invalid_argument(format!("the namespace {text} {error}")))
}

/// The empty text stands for none.
fn named(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn unreadable(error: serde_json::Error) -> Status {
    Status::invalid_argument(format!("the request cannot be read: {error}; is the cluster's flexor another version?"))
}

fn refused(error: ApiError) -> Status {
    match error {
        ApiError::Missing { .. } | ApiError::NoContainer { .. } => Status::not_found(error.to_string()),
        ApiError::PlanExists(_) => Status::already_exists(error.to_string()),
        ApiError::CannotRun(_) | ApiError::PlanDoesNotFit { .. } => Status::invalid_argument(error.to_string()),
        ApiError::BeingDeleted(_) | ApiError::NotRunning { .. } | ApiError::Object(_) => {
            Status::failed_precondition(error.to_string())
        }
        ApiError::Io(_) => Status::internal(error.to_string()),
    }
}

fn unknown_resource(number: i32) -> Status {
    Status::invalid_argument(format!("this cluster has no resource of number {number}; is its flexor older?"))
}
