//! Metrics of parameter servers, training scores and evaluations. An unknown value has no sample, rather than 0.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Labels, gauge, labels, set};
use crate::evaluations::EvaluationsStatus;
use crate::job::{Job, JobStatus};
use crate::scores::Scores;
use crate::servers::{ServersStatus, UpdatesStatus};

type Fractions = Family<Labels, Gauge<f64, AtomicU64>>;

pub(super) fn register(registry: &mut Registry, job: &Job, status: &JobStatus) {
    if let Some(servers) = &status.servers {
        register_servers(registry, job, servers);
    }
    if let Some(learning) = &status.learning {
        let scores = fractions(registry, "learning", "Scores of the model, by measure and data");
        for (data, Scores { loss, auc, accuracy }) in [("training", learning.training), ("test", learning.test)] {
            for (measure, value) in [("loss", loss), ("auc", auc), ("accuracy", accuracy)] {
                let of = vec![("data", data.to_owned()), ("measure", measure.to_owned())];
                set_known(&scores, job, of, value);
            }
        }
    }
    if let Some(evaluations) = &status.evaluations {
        register_evaluations(registry, job, evaluations);
    }
}

fn register_evaluations(registry: &mut Registry, job: &Job, status: &EvaluationsStatus) {
    let counts = gauge(registry, "evaluations", "Evaluations during training, by outcome");
    for (outcome, count) in [("done", status.done), ("skipped", status.skipped)] {
        set(&counts, job, vec![("outcome", outcome.to_owned())], count);
    }
}

fn register_servers(registry: &mut Registry, job: &Job, status: &ServersStatus) {
    let epoch = gauge(registry, "server_map_epoch", "The number of the map of parameter servers");
    set(&epoch, job, vec![], status.epoch.0);
    let standing = gauge(registry, "server_map", "1 where that is so of the map: redundant, settled");
    for (name, is_so) in [("redundant", status.redundant), ("settled", status.settled)] {
        set(&standing, job, vec![("is", name.to_owned())], is_so.into());
    }
    let partitions = gauge(registry, "server_partitions", "Partitions of a parameter server, by what it is for them");
    let keeps = gauge(registry, "server_keeps", "Rows and bytes that a parameter server keeps");
    let calls = gauge(registry, "server_calls", "Pulls and pushes that a parameter server was sent");
    let cpu = fractions(registry, "server_cpu_seconds", "Processor time of a parameter server");
    let help = "The longest that a partition took nothing while a parameter server handed it over";
    let freeze = fractions(registry, "server_longest_freeze_seconds", help);
    for server in &status.servers {
        let of = |kind: &str| vec![("server", server.name.clone()), ("kind", kind.to_owned())];
        set(&partitions, job, of("owned"), server.partitions as u64);
        set(&partitions, job, of("copied"), server.copies as u64);
        let load = &server.load;
        for (family, kind, value) in [
            (&keeps, "rows", load.rows),
            (&keeps, "bytes", load.bytes),
            (&calls, "pulls", load.pulls),
            (&calls, "pushes", load.pushes),
        ] {
            if let Some(value) = value {
                set(family, job, of(kind), value);
            }
        }
        set_known(&cpu, job, vec![("server", server.name.clone())], load.cpu_seconds);
        set_known(&freeze, job, vec![("server", server.name.clone())], load.longest_freeze_seconds);
    }
    if let Some(UpdatesStatus { applied, repeats, reapplied, lost, .. }) = status.updates {
        let updates = gauge(registry, "updates", "Updates of partitions, by what has become of them");
        for (state, count) in [("applied", applied), ("repeated", repeats), ("reapplied", reapplied), ("lost", lost)] {
            set(&updates, job, vec![("state", state.to_owned())], count);
        }
    }
}

fn fractions(registry: &mut Registry, name: &str, help: &str) -> Fractions {
    let family = Fractions::default();
    registry.register(name, help, family.clone());
    family
}

fn set_known(family: &Fractions, job: &Job, of: Labels, value: Option<f64>) {
    if let Some(value) = value {
        family.get_or_create(&labels(job, of)).set(value);
    }
}
