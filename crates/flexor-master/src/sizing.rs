//! A job that sizes itself: every second the engine's sizer gets a sample of what is measured, and what it proposes is
//! published for the controller.
//!
//! Nothing of it is journaled. After a restart measuring begins anew, and the controller says which plans there are.

mod sample;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flexor_engine::scaling::{Proposal, Sizer, TrialResult};
use flexor_model::Resources;
use flexor_wire::master::v1 as wire;
use tokio::sync::watch;

use crate::job::Job;

/// How often a sample is taken.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the sizer has to say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Published {
    /// A proposal that the controller may not have seen.
    proposal: Option<Proposal>,
    /// How the last change turned out.
    result: Option<TrialResult>,
    pub(crate) pace: Option<wire::Pace>,
}

/// What connects the sizer with the controller.
#[derive(Debug)]
pub(crate) struct Sizing {
    observed: Mutex<Option<wire::Observed>>,
    published: watch::Sender<Published>,
}

impl Default for Sizing {
    fn default() -> Self {
        Self { observed: Mutex::default(), published: watch::Sender::new(Published::default()) }
    }
}

impl Sizing {
    /// Takes the picture of the controller.
    pub(crate) fn observe(&self, observed: &wire::Observed) {
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner) = Some(observed.clone());
    }

    pub(crate) fn published(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }
}

/// Measures a job and decides about its sizes, as long as it is polled.
pub(crate) async fn run(job: &Job) {
    let mut sizer = Sizer::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let sizing = job.sizing();
        let observed = sizing.observed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(sample) = observed.and_then(|observed| sample::of(job, &observed)) else { continue };
        let decision = sizer.handle(&sample, job.clock().now());
        if let Some(proposal) = &decision.proposal {
            tracing::info!(number = proposal.number, reason = proposal.reason(), "proposes another size");
        }
        if let Some(result) = &decision.result {
            tracing::info!(number = result.number, %result, "measured what another size has brought");
        }
        let pace = sizer.pace().map(|(measured, bottleneck)| wire::Pace {
            steps_per_second: measured.rate,
            limited_by: bottleneck.to_string(),
        });
        sizing.published.send_if_modified(|published| {
            let result = decision.result.or_else(|| published.result.clone());
            let next = Published { proposal: sizer.open_proposal().cloned(), result, pace };
            let is_new = *published != next;
            *published = next;
            is_new
        });
    }
}

impl Published {
    /// The messages that a controller has to get, which has got `last`.
    pub(crate) fn messages(&self, last: &Published) -> Vec<wire::proposal::Kind> {
        let result = self.result.as_ref().filter(|_| self.result != last.result);
        let proposal = self.proposal.as_ref().filter(|_| self.proposal != last.proposal);
        let result = result.map(|result| {
            wire::proposal::Kind::Result(wire::PlanResult { number: result.number, message: result.to_string() })
        });
        result.into_iter().chain(proposal.map(|proposal| wire::proposal::Kind::Plan(message(proposal)))).collect()
    }
}

fn message(proposal: &Proposal) -> wire::ProposedPlan {
    let resources = |resources: &Resources| {
        resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_string())).collect()
    };
    let roles = proposal.roles.iter().map(|(role, change)| wire::SizeChange {
        role: role.to_string(),
        replicas: change.replicas,
        resources: resources(&change.resources),
    });
    let migrate = proposal.migrate.iter().map(|migration| wire::Migration {
        pod: migration.pod.to_string(),
        resources: resources(&migration.resources),
    });
    wire::ProposedPlan {
        number: proposal.number,
        message: proposal.reason(),
        roles: roles.collect(),
        migrate: migrate.collect(),
    }
}
