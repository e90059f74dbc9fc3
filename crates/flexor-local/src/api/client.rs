//! The other end of the socket: objects come out and wishes go in, as a client of a Kubernetes cluster would have it.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use flexor_model::{Job, Plan};
use flexor_wire::local::v1::apply_request::Meaning;
use flexor_wire::local::v1::local_client::LocalClient;
use flexor_wire::local::v1::{
    ApplyRequest, Changes, DeleteRequest, KillRequest, LogBytes, LogsRequest, Outcome, Resource, Wanted,
};
use serde_json::Value;
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use super::socket::Reach;
use crate::objects::Object;
use crate::state_dir::StateDir;

/// A thousand pods are some megabytes.
const LARGEST_ANSWER: usize = 256 << 20;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody serves there.
    #[error("no laptop cluster runs in {}{}", state_dir.display(), next_step(left))]
    NoCluster {
        /// The folder.
        state_dir: PathBuf,
        /// The jobs of one that was killed.
        left: Vec<String>,
    },
    /// The cluster says no.
    #[error("{0}")]
    Refused(String),
    /// Something of that name is there already.
    #[error("{0}")]
    Exists(String),
    /// The cluster has ended, or what it says makes no sense.
    #[error(
        "the laptop cluster does not answer any more: {0}; `flexor run --resume` or `flexor local up` goes on if it was killed"
    )]
    Lost(String),
}

/// Speaks to a laptop cluster.
#[derive(Debug, Clone)]
pub struct Client {
    calls: LocalClient<Channel>,
    state_dir: PathBuf,
    /// The way to the socket, for as long as it may be dialled again.
    _reach: Arc<Reach>,
}

/// What has become of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// It is not there any more.
    pub gone: bool,
    /// As it is now, or was last.
    pub object: Value,
}

/// Which part of a log.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Of this container; else of the main one.
    pub container: Option<String>,
    /// Also what comes, from the pod's successors too, until there is none.
    pub follow: bool,
    /// Only so many lines from the end.
    pub tail: Option<u64>,
}

/// What changes of the objects of a resource.
#[derive(Debug)]
pub struct Watch(Streaming<Changes>);

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Printed {
    /// What a container has printed.
    Bytes(Vec<u8>),
    /// The pod was replaced under its name: the rest is its successor's.
    BySuccessor,
}

/// What a container prints.
#[derive(Debug)]
pub struct Logs(Streaming<LogBytes>);

impl Client {
    /// A client of the cluster in a folder.
    ///
    /// # Errors
    ///
    /// No cluster runs there, or it is somebody else's.
    pub async fn connect(state_dir: &StateDir) -> Result<Self, ClientError> {
        let socket = state_dir.socket();
        let nobody = |_| no_cluster(state_dir);
        let reach = Reach::of(&socket).map_err(nobody)?;
        let path = reach.path().display();
        let endpoint = Endpoint::from_shared(format!("unix:{path}")).map_err(|error| lost(&error))?;
        let channel = endpoint.connect().await.map_err(|error| {
            if nobody_is_there(&error) {
                no_cluster(state_dir)
            } else {
                ClientError::Lost(format!("{}: {}", socket.display(), in_full(&error)))
            }
        })?;
        let calls = LocalClient::new(channel).max_decoding_message_size(LARGEST_ANSWER);
        Ok(Self { calls, state_dir: state_dir.path().to_owned(), _reach: Arc::new(reach) })
    }

    /// The objects of a resource in a namespace, or in all.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn list(&self, resource: Resource, namespace: Option<&str>) -> Result<Vec<Value>, ClientError> {
        let answer =
            self.calls.clone().list(wanted(resource, namespace)).await.map_err(|status| self.refused(status))?;
        answer.into_inner().json.iter().map(|json| object(json)).collect()
    }

    /// The objects of a resource, and then what changes of them.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn watch(&self, resource: Resource, namespace: Option<&str>) -> Result<Watch, ClientError> {
        let answer =
            self.calls.clone().watch(wanted(resource, namespace)).await.map_err(|status| self.refused(status))?;
        Ok(Watch(answer.into_inner()))
    }

    /// Has a job taken in, or what has changed of it.
    ///
    /// # Errors
    ///
    /// The cluster does not want it, or does not answer.
    pub async fn apply_job(&self, job: &Job, manifest: &Value) -> Result<Outcome, ClientError> {
        let job = serde_json::to_string(job).map_err(|error| lost(&error))?;
        self.apply(Some(Meaning::Job(job)), manifest).await
    }

    /// Has a plan taken in.
    ///
    /// # Errors
    ///
    /// The cluster does not want it, or does not answer.
    pub async fn apply_plan(&self, plan: &Plan, manifest: &Value) -> Result<Outcome, ClientError> {
        let plan = serde_json::to_string(plan).map_err(|error| lost(&error))?;
        self.apply(Some(Meaning::Plan(plan)), manifest).await
    }

    /// Has a ConfigMap, Secret or PriorityClass taken in, or what has changed of it.
    ///
    /// # Errors
    ///
    /// The cluster does not want it, or does not answer.
    pub async fn apply_object(&self, object: &Object) -> Result<Outcome, ClientError> {
        self.apply(None, &object.manifest).await
    }

    async fn apply(&self, meaning: Option<Meaning>, manifest: &Value) -> Result<Outcome, ClientError> {
        let request = ApplyRequest { meaning, manifest: manifest.to_string() };
        Ok(self.calls.clone().apply(request).await.map_err(|status| self.refused(status))?.into_inner().outcome())
    }

    /// Deletes something. The unique id of what will be gone.
    ///
    /// # Errors
    ///
    /// It is not there, or the cluster does not answer.
    pub async fn delete(&self, resource: Resource, namespace: &str, name: &str) -> Result<String, ClientError> {
        let request =
            DeleteRequest { resource: resource.into(), namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(self.calls.clone().delete(request).await.map_err(|status| self.refused(status))?.into_inner().uid)
    }

    /// Sends a signal to the program of a container, the main one where none is named.
    ///
    /// # Errors
    ///
    /// It does not run, or the cluster does not answer.
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

    /// What a container prints.
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

    /// Why a call was not answered.
    fn refused(&self, status: Status) -> ClientError {
        // It has ended since it was found.
        if nobody_is_there(&status) { no_cluster(&StateDir::at(&self.state_dir)) } else { refused(status) }
    }
}

impl Watch {
    /// All there is at first, then what has changed; nothing when the cluster has ended.
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
    /// The next part; nothing when there will be no more.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or the cluster was lost.
    pub async fn next(&mut self) -> Result<Option<Printed>, ClientError> {
        let part = self.0.message().await.map_err(refused)?;
        Ok(part.map(|part| if part.replaced { Printed::BySuccessor } else { Printed::Bytes(part.bytes.to_vec()) }))
    }
}

fn wanted(resource: Resource, namespace: Option<&str>) -> Wanted {
    Wanted { resource: resource.into(), namespace: namespace.unwrap_or_default().to_owned() }
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

/// That nobody serves in a folder, and what lies there.
fn no_cluster(state_dir: &StateDir) -> ClientError {
    ClientError::NoCluster { state_dir: state_dir.path().to_owned(), left: state_dir.job_names() }
}

/// What to do where no cluster runs.
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

/// Whether the operating system says that nobody listens.
fn nobody_is_there(error: &(dyn Error + 'static)) -> bool {
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

fn in_full(error: &(dyn Error + 'static)) -> String {
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
    fn what_one_that_was_killed_has_left_is_told_with_how_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(folder.path());
        let told = no_cluster(&state_dir).to_string();
        assert!(
            told.ends_with(
                "; start one with `flexor local up` or `flexor run FILE`, or name its folder with --state-dir"
            )
        );
        std::fs::create_dir(state_dir.jobs()).unwrap();
        for file in ["default.mnist.json", "default.ctr.json", "other"] {
            std::fs::write(state_dir.jobs().join(file), "").unwrap();
        }
        let told = no_cluster(&state_dir).to_string();
        let expected = ", but one that was killed has left ctr, mnist; `flexor run --resume` or `flexor local up` goes on \
                        with them, `flexor local down` ends them";
        assert!(told.ends_with(expected), "{told}");
    }
}
