//! Events of one job, worded by its dialect.

use std::sync::Arc;

use flexor_dialects::{Dialect, EventInput};
use flexor_engine::controller::Event;
use flexor_model::Job;
use kube::ResourceExt;

use crate::executor::Shared;
use crate::recorder::Subject;

/// The object behind a job, as its events name it.
#[derive(Clone)]
pub(crate) struct JobEvents {
    pub(crate) dialect: &'static Dialect,
    pub(crate) job: Arc<Job>,
    /// The job's object, with its uid.
    pub(crate) subject: Subject,
}

impl JobEvents {
    /// Logs an event and queues it for the API server.
    pub(crate) fn record(&self, shared: &Shared, Event { pod, cause }: &Event) {
        let Subject { namespace, name: job, .. } = &self.subject;
        let text = self.dialect.event(&EventInput { job: &self.job, pod: pod.as_deref(), cause });
        tracing::info!(job, namespace, pod, reason = %cause.reason, message = cause.message, "event");
        let pod = pod.as_ref().map(|pod| Subject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: namespace.clone(),
            name: pod.clone(),
            uid: self.uid_of(shared, pod),
        });
        shared.recorder.record(self.subject.clone(), pod, text);
    }

    fn uid_of(&self, shared: &Shared, pod: &str) -> Option<String> {
        let pods = shared.pods.of_job(&self.subject.namespace, self.subject.uid.as_deref()?);
        pods.iter().find(|known| known.name_any() == pod)?.uid()
    }
}
