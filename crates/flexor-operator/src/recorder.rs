//! Events for people, published beside the loop: a slow or failing API server never keeps an action back.

use std::collections::HashMap;

use flexor_dialects::EventText;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{self, EventType, Reporter};
use tokio::sync::mpsc;

/// More events than this wait for the API server; further ones are dropped.
const MOST_WAITING: usize = 4096;
/// The longest message that the API server takes.
const LONGEST_NOTE: usize = 1024;

/// The object that an event is about.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
}

struct QueuedEvent {
    job: Subject,
    pod: Option<Subject>,
    text: EventText,
}

/// The queue to the task that publishes.
pub(crate) struct Recorder(mpsc::Sender<QueuedEvent>);

impl Recorder {
    /// Starts the task; it ends with the recorder.
    pub(crate) fn start(client: Client) -> Self {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        tokio::spawn(publish_all(client, receiver));
        Self(sender)
    }

    pub(crate) fn record(&self, job: Subject, pod: Option<Subject>, text: EventText) {
        if self.0.try_send(QueuedEvent { job, pod, text }).is_err() {
            tracing::warn!("an event is dropped: too many wait for the API server");
        }
    }
}

async fn publish_all(client: Client, mut queue: mpsc::Receiver<QueuedEvent>) {
    let mut recorders: HashMap<&'static str, events::Recorder> = HashMap::new();
    while let Some(QueuedEvent { job, pod, text }) = queue.recv().await {
        let recorder = recorders.entry(text.reporter).or_insert_with(|| {
            let reporter = Reporter { controller: text.reporter.to_owned(), instance: None };
            events::Recorder::new(client.clone(), reporter)
        });
        let (regarding, related) = match pod {
            // Events of one reason are folded into one unless they name different pods.
            Some(pod) if text.is_about_job => (job, Some(pod)),
            Some(pod) => (pod, Some(job)),
            None => (job, None),
        };
        let event = events::Event {
            type_: if text.type_ == "Warning" { EventType::Warning } else { EventType::Normal },
            action: text.reason.clone(),
            reason: text.reason,
            note: Some(cut(text.message)),
            secondary: related.map(Into::into),
        };
        if let Err(error) = recorder.publish(&event, &regarding.into()).await {
            tracing::warn!(reason = event.reason, %error, "an event cannot be published");
        }
    }
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - '…'.len_utf8()).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push('…');
    }
    message
}

impl From<Subject> for ObjectReference {
    fn from(subject: Subject) -> Self {
        Self {
            api_version: Some(subject.api_version),
            kind: Some(subject.kind),
            namespace: Some(subject.namespace),
            name: Some(subject.name),
            uid: subject.uid,
            ..Self::default()
        }
    }
}
