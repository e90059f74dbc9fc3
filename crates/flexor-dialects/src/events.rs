//! What an Event of Kubernetes says: each dialect words those that its users know, and the rest are Flexor's own.

use flexor_engine::Cause;
use flexor_model::{Job, Severity};

/// Who reports events that only Flexor has.
const REPORTER: &str = "flexor";

/// An event, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventText {
    /// Why, in one word.
    pub reason: String,
    /// What happened, in a sentence.
    pub message: String,
    /// Normal or Warning.
    pub type_: &'static str,
    /// The component that reports it.
    pub reporter: &'static str,
    /// The event belongs to the job although it names a pod.
    pub is_about_job: bool,
}

/// Something that happened to a job, or to a pod of it.
#[derive(Debug, Clone, Copy)]
pub struct EventInput<'a> {
    /// The job.
    pub job: &'a Job,
    /// The pod that it happened to.
    pub pod: Option<&'a str>,
    /// What happened, and why.
    pub cause: &'a Cause,
}

impl EventText {
    /// An event in Flexor's own words.
    pub fn own(cause: &Cause, is_about_job: bool) -> Self {
        Self {
            reason: cause.reason.to_string(),
            message: cause.message.clone(),
            type_: match cause.reason.severity() {
                Severity::Error | Severity::Warning => "Warning",
                Severity::Notice => "Normal",
            },
            reporter: REPORTER,
            is_about_job,
        }
    }
}

/// The event in Flexor's own words.
pub(crate) fn in_own_words(event: &EventInput<'_>) -> EventText {
    EventText::own(event.cause, event.pod.is_none())
}
