//! Events for people, published beside the loop: a slow or failing API server never keeps an action back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flexor_dialects::EventText;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{self, EventType, Reporter};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::executor::REQUEST_TIMEOUT;
use crate::watch_backoff::WatchBackoff;

/// More events than this wait for the API server; further ones are dropped.
const MOST_WAITING: usize = 4096;
/// So many are published at once.
const AT_ONCE: usize = 8;
/// While the API server is away, an event is tried again for so long.
const RETRY_FOR: Duration = Duration::from_secs(10);
/// The longest message that the API server takes.
const LONGEST_NOTE: usize = 1024;
/// The longest action that it takes.
const LONGEST_ACTION: usize = 128;

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

/// The queue of events that are to be published.
pub(crate) struct Recorder {
    queue: mpsc::Sender<QueuedEvent>,
    dropped: Counter,
}

impl Recorder {
    /// A recorder, and what publishes its events. `dropped` counts those that cannot be published.
    pub(crate) fn new(client: Client, dropped: Counter) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, receiver) = mpsc::channel(MOST_WAITING);
        let publisher = Publisher { client, recorders: Mutex::default(), dropped: dropped.clone() };
        let publishing = async move {
            let publish = |event| publisher.publish(event);
            ReceiverStream::new(receiver).for_each_concurrent(AT_ONCE, publish).await;
        };
        (Self { queue, dropped }, publishing)
    }

    pub(crate) fn record(&self, job: Subject, pod: Option<Subject>, text: EventText) {
        if self.queue.try_send(QueuedEvent { job, pod, text }).is_err() {
            self.dropped.inc();
            tracing::warn!("an event is dropped: too many wait for the API server");
        }
    }
}

struct Publisher {
    client: Client,
    /// One for each component that reports.
    recorders: Mutex<HashMap<&'static str, events::Recorder>>,
    dropped: Counter,
}

impl Publisher {
    async fn publish(&self, QueuedEvent { job, pod, text }: QueuedEvent) {
        let recorder = {
            let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                let reporter = Reporter { controller: text.reporter.to_owned(), instance: None };
                events::Recorder::new(self.client.clone(), reporter)
            };
            recorders.entry(text.reporter).or_insert_with(new).clone()
        };
        let (regarding, related) = match pod {
            // Events of one reason are folded into one unless they name different pods.
            Some(pod) if text.is_about_job => (job, Some(pod)),
            Some(pod) => (pod, Some(job)),
            None => (job, None),
        };
        let event = events::Event {
            type_: if text.type_ == "Warning" { EventType::Warning } else { EventType::Normal },
            // Events that differ in their message only would be folded into one with the first message, so what differs is
            // said here as well. A pod does not tell its successor's events apart: its uid may not be known yet.
            action: cut(text.message.clone(), LONGEST_ACTION),
            reason: text.reason,
            note: Some(cut(text.message, LONGEST_NOTE)),
            secondary: related.map(Into::into),
        };
        let regarding = regarding.into();
        let began = Instant::now();
        let mut waits = WatchBackoff::default();
        loop {
            let error = match timeout(REQUEST_TIMEOUT, recorder.publish(&event, &regarding)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) if passes(&error) && began.elapsed() < RETRY_FOR => {
                    tokio::time::sleep(waits.next().unwrap_or_default()).await;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            self.dropped.inc();
            tracing::warn!(reason = event.reason, error, "an event cannot be published");
            return;
        }
    }
}

/// Whether the same request may succeed soon: the API server is away or busy.
fn passes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

fn cut(mut message: String, longest: usize) -> String {
    if message.len() > longest {
        let end = (0..=longest - '…'.len_utf8()).rev().find(|end| message.is_char_boundary(*end));
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
