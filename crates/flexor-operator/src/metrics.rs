//! What the operator counts, for Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) reconciliations: Counter,
    pub(crate) creates: Counter,
    pub(crate) deletes: Counter,
    pub(crate) status_writes: Counter,
    pub(crate) dropped_events: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flexor_operator");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let reconciliations = counter("reconciliations", "Passes over a job");
        let creates = counter("pod_creates", "Requests to create a pod");
        let deletes = counter("pod_deletes", "Requests to delete a pod");
        let status_writes = counter("status_writes", "Requests to write the status of a job or plan");
        let dropped_events = counter("dropped_events", "Events that could not be published");
        Self { registry, reconciliations, creates, deletes, status_writes, dropped_events }
    }
}

impl Metrics {
    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
