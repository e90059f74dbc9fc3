//! The operator's end of the feed to a job's master: where the master is, and what it has reported.
//!
//! What is sent and what a proposal means is `flexor-control`'s. The link is opened by a reconciliation, so only when
//! all caches are complete: a master takes a worker that it is not shown for lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flexor_client::Upstream;
use flexor_control::{
    FeedMessage, Machines, MasterFeed, MasterUpdate, TrainingStatus, observed_by_master, read_proposal,
};
use flexor_engine::Cause;
use flexor_engine::controller::{Event, JobStatus, ObservedPlan, ObservedPod};
use flexor_engine::pod_status::Phase;
use flexor_model::{Job, Program};
use flexor_wire::master::v1 as wire;

use crate::automatic_plans::MasterPlans;
use crate::executor::{Shared, now};
use crate::job_events::JobEvents;
use crate::owned_objects::JobRef;
use crate::slim_pod::SlimPod;
use crate::watches::Queues;

/// The port of the master's API, by its name.
const GRPC_PORT: &str = "grpc";

/// What the masters of a job have reported.
#[derive(Debug, Default)]
pub(crate) struct MasterReports {
    pub(crate) training: Option<TrainingStatus>,
    /// Why the programs can form no world any more.
    pub(crate) closed: Option<Cause>,
    /// Parameter servers that keep nothing any more.
    pub(crate) released: BTreeSet<String>,
    pub(crate) plans: MasterPlans,
}

/// The reports, shared with the task that receives them.
pub(crate) type SharedReports = Arc<Mutex<MasterReports>>;

pub(crate) fn lock(reports: &SharedReports) -> MutexGuard<'_, MasterReports> {
    reports.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The feed to the master of one job, if it has one that runs.
#[derive(Default)]
pub(crate) struct MasterLink(Option<(String, MasterFeed)>);

/// What a link needs to know of its job.
pub(crate) struct LinkedJob<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) queues: &'a Queues,
    pub(crate) events: &'a JobEvents,
    pub(crate) reports: &'a SharedReports,
}

impl MasterLink {
    /// Shows the job's master what is observed. Opens the feed where the master's pod runs, again when that pod was
    /// replaced, and closes it when there is none.
    pub(crate) fn update(
        &mut self,
        job: &LinkedJob<'_>,
        status: &JobStatus,
        pods: &[ObservedPod],
        plans: &[ObservedPlan],
    ) {
        let Some(address) = job.master_address() else {
            self.0 = None;
            return;
        };
        if self.0.as_ref().is_none_or(|(known, _)| *known != address) {
            let token = job.shared.tokens.of_job(job.uid());
            let Ok(upstream) = Upstream::new(&address, Some(token)) else { return };
            tracing::info!(
                job = job.events.subject.name,
                namespace = job.events.subject.namespace,
                address,
                "feeds the master"
            );
            self.0 = Some((address, MasterFeed::open(upstream, job.on_message())));
        }
        if let Some((_, feed)) = &self.0 {
            let machines = Machines { shared_millicores: None, largest_node: job.shared.nodes.largest() };
            feed.send(observed_by_master(&job.events.job, status, pods, plans, &machines));
        }
    }
}

impl LinkedJob<'_> {
    fn uid(&self) -> &str {
        self.events.subject.uid.as_deref().unwrap_or_default()
    }

    /// Where the master that runs is reached: its pod's own address, which a replacement does not share.
    fn master_address(&self) -> Option<String> {
        let role = self.events.job.roles.iter().find(|role| role.program == Program::FlexorMaster)?;
        let port = role.ports.iter().find(|port| port.name.as_str() == GRPC_PORT)?.port;
        let pods = self.shared.pods.of_job(&self.events.subject.namespace, self.uid());
        let is_master = |pod: &&Arc<SlimPod>| pod.role() == Some(role.name.as_str());
        let runs =
            |pod: &&Arc<SlimPod>| pod.status.phase == Phase::Running && pod.metadata.deletion_timestamp.is_none();
        let master = pods.iter().filter(is_master).find(runs)?;
        let ip: std::net::IpAddr = master.status.pod_ip.as_deref()?.parse().ok()?;
        Some(std::net::SocketAddr::new(ip, port).to_string())
    }

    /// The receiver of what the feed brings.
    fn on_message(&self) -> impl Fn(FeedMessage) + Send + Sync + use<> {
        let (shared, reports) = (Arc::downgrade(self.shared), Arc::clone(self.reports));
        let (events, queues) = (self.events.clone(), self.queues.clone());
        move |message| {
            let (Some(shared), FeedMessage::Proposal(proposal)) = (shared.upgrade(), message) else { return };
            let (recorded, decides) = apply(&events.job, &reports, proposal);
            recorded.into_iter().for_each(|cause| events.record(&shared, &Event { pod: None, cause }));
            if decides {
                queues.push(&JobRef::from(&events.subject));
            }
        }
    }
}

/// Takes in a proposal. Returns the events that follow from it, and whether the controller has to decide.
fn apply(job: &Job, reports: &SharedReports, proposal: wire::Proposal) -> (Vec<Cause>, bool) {
    let mut reports = lock(reports);
    match read_proposal(proposal, job.name.as_str(), reports.training.as_ref(), now()) {
        Some(MasterUpdate::Training { status, events }) => {
            reports.training = Some(*status);
            (events, false)
        }
        Some(MasterUpdate::RunClosed(cause)) => {
            reports.closed = Some(cause);
            (Vec::new(), true)
        }
        Some(MasterUpdate::Released(pods)) => {
            let is_new = reports.released != pods;
            reports.released = pods;
            (Vec::new(), is_new)
        }
        Some(MasterUpdate::Plan { number, plan }) => {
            reports.plans.proposed = Some((number, *plan));
            (Vec::new(), true)
        }
        Some(MasterUpdate::PlanResult { number, message }) => {
            reports.plans.result = Some((number, message));
            (Vec::new(), true)
        }
        None => (Vec::new(), false),
    }
}
