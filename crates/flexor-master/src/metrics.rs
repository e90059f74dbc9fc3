//! `/metrics`: the state of the job, read when the page is requested.

mod servers;

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;

use crate::run_status::RunStatus;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::job::Job;

type Labels = Vec<(&'static str, String)>;

/// Renders all metrics in the OpenMetrics format.
pub(crate) fn render(job: &Job) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("flexor");
    let status = job.status();
    let generation = gauge(&mut registry, "master_generation", "Generation of the job's journal");
    set(&generation, job, vec![], status.generation);
    let writable = gauge(&mut registry, "journal_writable", "1 while the journal can be written");
    let is_writable = job.journal().health().borrow().is_writable();
    set(&writable, job, vec![], u64::from(is_writable));
    let fsyncs = Counter::<u64>::default();
    fsyncs.inc_by(job.journal().fsyncs());
    registry.register("journal_fsyncs", "Fsyncs of the journal", fsyncs);
    let connections = gauge(&mut registry, "store_connections", "Connections to the TCPStore port");
    set(&connections, job, vec![], job.state().connections() as u64);
    let keys = gauge(&mut registry, "store_keys", "Keys in the store");
    set(&keys, job, vec![], job.with(|store, _, _| store.keyspace().len() as u64));
    register_runs(&mut registry, job, &status.runs);
    register_decisions(&mut registry, job);
    register_nodes(&mut registry, job);
    register_data(&mut registry, job);
    servers::register(&mut registry, job, &status);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn register_runs(registry: &mut Registry, job: &Job, runs: &[RunStatus]) {
    let size = gauge(registry, "world_size", "Nodes in the world of the last complete round");
    let round = gauge(registry, "world_round", "Number of the last complete round");
    let members = gauge(registry, "members", "Live nodes, by state");
    let failures = gauge(registry, "program_failures", "Rounds that ended because the program failed");
    let closed = gauge(registry, "run_closed", "1 when the rendezvous is closed");
    for run in runs {
        let of_run = || vec![("run", run.run.clone())];
        set(&size, job, of_run(), run.world_size as u64);
        set(&round, job, of_run(), run.round.unwrap_or(0));
        set(&failures, job, of_run(), run.program_failures.into());
        set(&closed, job, of_run(), run.closed.into());
        for member in &run.members {
            let state = member.state.as_str().to_owned();
            let labels = labels(job, vec![("run", run.run.clone()), ("state", state)]);
            members.get_or_create(&labels).inc();
        }
    }
}

fn register_decisions(registry: &mut Registry, job: &Job) {
    let decisions = job.decisions().lock().unwrap_or_else(PoisonError::into_inner);
    let rounds = Counter::<u64>::default();
    rounds.inc_by(decisions.rounds);
    registry.register("rounds_completed", "Rounds that completed since the master started", rounds);
    let lost = Family::<Labels, Counter>::default();
    for (reason, count) in &decisions.lost {
        lost.get_or_create(&labels(job, vec![("reason", reason.to_string())])).inc_by(*count);
    }
    registry.register("nodes_lost", "Nodes lost since the master started, by reason", lost);
}

fn register_nodes(registry: &mut Registry, job: &Job) {
    let numbers = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    job.with_reports(|reports| {
        for (node, metrics) in &reports.metrics {
            for (name, value) in metrics {
                let labels = labels(job, vec![("node", node.clone()), ("name", name.clone())]);
                numbers.get_or_create(&labels).set(*value);
            }
        }
    });
    registry.register("node_metric", "Numbers that nodes report", numbers);
}

fn register_data(registry: &mut Registry, job: &Job) {
    let records = gauge(registry, "dataset_records", "Records of the epochs that have begun, by state");
    let batches = gauge(registry, "dataset_quarantined_batches", "Batches that the program fails on");
    let help = "Accounted records that were skipped because they are damaged or cannot be parsed";
    let skipped_records = gauge(registry, "dataset_skipped_records", help);
    for dataset in job.data().status() {
        let name = dataset.spec.name.to_string();
        let totals = dataset.totals;
        let states = [
            ("accounted", totals.accounted),
            ("quarantined", totals.quarantined),
            ("outstanding", totals.outstanding),
            ("repeated_at_most", totals.repeated_at_most),
            ("rewound", totals.rewound),
        ];
        for (state, count) in states {
            set(&records, job, vec![("dataset", name.clone()), ("state", state.to_owned())], count);
        }
        set(&skipped_records, job, vec![("dataset", name.clone())], dataset.skipped_records);
        set(&batches, job, vec![("dataset", name)], dataset.quarantine.len() as u64);
    }
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    registry.register(name, help, family.clone());
    family
}

fn set(family: &Family<Labels, Gauge>, job: &Job, extra: Labels, value: u64) {
    family.get_or_create(&labels(job, extra)).set(i64::try_from(value).unwrap_or(i64::MAX));
}

fn labels(job: &Job, extra: Labels) -> Labels {
    [vec![("job", job.name().to_owned())], extra].concat()
}
