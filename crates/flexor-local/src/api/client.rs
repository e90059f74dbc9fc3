//! The client of a laptop cluster's API: lists and watches objects, and sends requests, as a Kubernetes client does.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flexor_model::{Job, Plan};
use flexor_wire::local::v1::apply_request::Meaning;
use flexor_wire::local::v1::local_client::LocalClient;
use flexor_wire::local::v1::{
    ApplyRequest, Changes, DeleteRequest, KillRequest, LogBytes, LogsRequest, Outcome, Resource, ResourceSelector,
};
use serde_json::Value;
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use super::socket_path::SocketPath;
use crate::objects::Object;
use crate::state_dir::StateDir;

/// The longest answer in bytes: a thousand pods are some megabytes.
const LARGEST_ANSWER: usize = 256 << 20;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No cluster serves this state directory.
    #[error("no laptop cluster runs in {}{}", state_dir.display(), next_step(left))]
    NoCluster {
        state_dir: PathBuf,
        /// The jobs that a killed cluster has left.
        left: Vec<String>,
    },
    /// The cluster refuses the request.
    #[error("{0}")]
    Refused(String),
    /// An object of that name exists already.
    #[error("{0}")]
    Exists(String),
    /// The cluster has ended, or its answer cannot be read.
    #[error(
        "the laptop cluster does not answer any more: {0}; `flexor run --resume` or `flexor local up` goes on if it was killed"
    )]
    Lost(String),
}

#[derive(Debug, Clone)]
pub struct Client {
    calls: LocalClient<Channel>,
    state_dir: PathBuf,
    /// Keeps the path valid while the channel may be dialled again.
    _socket: Arc<SocketPath>,
}

/// A change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object was removed.
    pub gone: bool,
    /// As it is now, or as it was last.
    pub object: Value,
}

#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// The main container if none is named.
    pub container: Option<String>,
    /// Goes on with what is printed later, by the pod's replacements too, until there is none.
    pub follow: bool,
    /// Only so many of the last lines.
    pub tail: Option<u64>,
}

/// A watch over the objects of a resource.
#[derive(Debug)]
pub struct Watch(Streaming<Changes>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogChunk {
    Bytes(Vec<u8>),
    /// The pod was replaced under its name: the rest is the log of its replacement.
    Replaced,
}

/// The log of a container.
#[derive(Debug)]
pub struct Logs(Streaming<LogBytes>);

impl Client {
    /// Connects to the cluster of a state directory.
    ///
    /// # Errors
    ///
    /// No cluster runs there, or it belongs to another user.
    pub async fn connect(state_dir: &StateDir) -> Result<Self, ClientError> {
        state_dir.check_owner().map_err(|error| ClientError::Refused(error.to_string()))?;
        let socket = state_dir.socket();
        let path = SocketPath::of(&socket).map_err(|_| no_cluster(state_dir))?;
        let endpoint =
            Endpoint::from_shared(format!("unix:{}", path.path().display())).map_err(|error| lost(&error))?;
        let channel = endpoint.connect().await.map_err(|error| {
            if is_not_listening(&error) {
                no_cluster(state_dir)
            } else {
                ClientError::Lost(format!("{}: {}", socket.display(), with_sources(&error)))
            }
        })?;
        let calls = LocalClient::new(channel).max_decoding_message_size(LARGEST_ANSWER);
        Ok(Self { calls, state_dir: state_dir.path().to_owned(), _socket: Arc::new(path) })
    }

    /// The objects of a resource in a namespace, or in all namespaces.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn list(&self, resource: Resource, namespace: Option<&str>) -> Result<Vec<Value>, ClientError> {
        let answer =
            self.calls.clone().list(selector(resource, namespace)).await.map_err(|status| self.refused(status))?;
        answer.into_inner().json.iter().map(|json| object(json)).collect()
    }

    /// The objects of a resource, then what changes.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn watch(&self, resource: Resource, namespace: Option<&str>) -> Result<Watch, ClientError> {
        let answer =
            self.calls.clone().watch(selector(resource, namespace)).await.map_err(|status| self.refused(status))?;
        Ok(Watch(answer.into_inner()))
    }

    /// Applies a job.
    ///
    /// # Errors
    ///
    /// The cluster refuses it, or does not answer.
    pub async fn apply_job(&self, job: &Job, manifest: &Value) -> Result<Outcome, ClientError> {
        let job = serde_json::to_string(job).map_err(|error| lost(&error))?;
        self.apply(Some(Meaning::Job(job)), manifest).await
    }

    /// Applies a plan.
    ///
    /// # Errors
    ///
    /// The cluster refuses it, or does not answer.
    pub async fn apply_plan(&self, plan: &Plan, manifest: &Value) -> Result<Outcome, ClientError> {
        let plan = serde_json::to_string(plan).map_err(|error| lost(&error))?;
        self.apply(Some(Meaning::Plan(plan)), manifest).await
    }

    /// Applies a ConfigMap, Secret or PriorityClass.
    ///
    /// # Errors
    ///
    /// The cluster refuses it, or does not answer.
    pub async fn apply_object(&self, object: &Object) -> Result<Outcome, ClientError> {
        self.apply(None, &object.manifest).await
    }

    async fn apply(&self, meaning: Option<Meaning>, manifest: &Value) -> Result<Outcome, ClientError> {
        let request = ApplyRequest { meaning, manifest: manifest.to_string() };
        Ok(self.calls.clone().apply(request).await.map_err(|status| self.refused(status))?.into_inner().outcome())
    }

    /// Deletes an object. Returns its uid; it may need a while to be gone.
    ///
    /// # Errors
    ///
    /// The object does not exist, or the cluster does not answer.
    pub async fn delete(&self, resource: Resource, namespace: &str, name: &str) -> Result<String, ClientError> {
        let request =
            DeleteRequest { resource: resource.into(), namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(self.calls.clone().delete(request).await.map_err(|status| self.refused(status))?.into_inner().uid)
    }

    /// Sends a signal to the program of a container, of the main one if none is named.
    ///
    /// # Errors
    ///
    /// The program does not run, or the cluster does not answer.
    pub async fn kill(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        signal: i32,
    ) -> Result<(), ClientError> {
        let request = KillRequest {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.unwrap_or_default().to_owned(),
            signal,
        };
        self.calls.clone().kill(request).await.map_err(|status| self.refused(status))?;
        Ok(())
    }

    /// The log of a container.
    ///
    /// # Errors
    ///
    /// There is no such container, or the cluster does not answer.
    pub async fn logs(&self, namespace: &str, pod: &str, options: &LogOptions) -> Result<Logs, ClientError> {
        let request = LogsRequest {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: options.container.clone().unwrap_or_default(),
            follow: options.follow,
            tail: options.tail,
        };
        Ok(Logs(self.calls.clone().logs(request).await.map_err(|status| self.refused(status))?.into_inner()))
    }

    /// The error of a call.
    fn refused(&self, status: Status) -> ClientError {
        // The cluster may have ended since the client connected.
        if is_not_listening(&status) { no_cluster(&StateDir::at(&self.state_dir)) } else { refused(status) }
    }
}

impl Watch {
    /// All objects at first, then what has changed; none when the cluster has ended.
    ///
    /// # Errors
    ///
    /// The cluster was lost.
    pub async fn next(&mut self) -> Result<Option<Vec<Change>>, ClientError> {
        let Some(changes) = self.0.message().await.map_err(refused)? else { return Ok(None) };
        let change =
            |change: &flexor_wire::local::v1::Change| Ok(Change { gone: change.gone, object: object(&change.json)? });
        changes.changes.iter().map(change).collect::<Result<Vec<Change>, ClientError>>().map(Some)
    }
}

impl Logs {
    /// The next chunk; none at the end.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or the cluster was lost.
    pub async fn next(&mut self) -> Result<Option<LogChunk>, ClientError> {
        let chunk = self.0.message().await.map_err(refused)?;
        Ok(chunk.map(|chunk| if chunk.replaced { LogChunk::Replaced } else { LogChunk::Bytes(chunk.bytes.to_vec()) }))
    }
}

fn selector(resource: Resource, namespace: Option<&str>) -> ResourceSelector {
    ResourceSelector { resource: resource.into(), namespace: namespace.unwrap_or_default().to_owned() }
}

fn object(json: &str) -> Result<Value, ClientError> {
    serde_json::from_str(json).map_err(|error| lost(&error))
}

fn lost(error: &(dyn Error + 'static)) -> ClientError {
    ClientError::Lost(error.to_string())
}

fn refused(status: Status) -> ClientError {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled => ClientError::Lost(status.message().to_owned()),
        Code::AlreadyExists => ClientError::Exists(status.message().to_owned()),
        _ => ClientError::Refused(status.message().to_owned()),
    }
}

/// The error for a state directory without a cluster, with the jobs that lie there.
fn no_cluster(state_dir: &StateDir) -> ClientError {
    ClientError::NoCluster { state_dir: state_dir.path().to_owned(), left: state_dir.job_names() }
}

/// What to do if no cluster runs.
fn next_step(left: &[String]) -> String {
    if left.is_empty() {
        return "; start one with `flexor local up` or `flexor run FILE`, or name its folder with --state-dir"
            .to_owned();
    }
    let left = left.join(", ");
    format!(
        ", but one that was killed has left {left}; `flexor run --resume` or `flexor local up` goes on with them, \
         `flexor local down` ends them"
    )
}

/// Whether the operating system says that no process listens.
fn is_not_listening(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(error.kind(), NotFound | ConnectionRefused | NotADirectory);
        }
        next = error.source();
    }
    false
}

/// An error with its sources.
fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_jobs_of_a_killed_cluster_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(folder.path());
        let message = no_cluster(&state_dir).to_string();
        assert!(
            message.ends_with(
                "; start one with `flexor local up` or `flexor run FILE`, or name its folder with --state-dir"
            )
        );
        std::fs::create_dir(state_dir.jobs()).unwrap();
        for file in ["default.mnist.json", "default.ctr.json", "other"] {
            std::fs::write(state_dir.jobs().join(file), "").unwrap();
        }
        let message = no_cluster(&state_dir).to_string();
        let expected = ", but one that was killed has left ctr, mnist; `flexor run --resume` or `flexor local up` goes on \
                        with them, `flexor local down` ends them";
        assert!(message.ends_with(expected), "{message}");
    }
}
