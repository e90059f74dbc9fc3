//! The launcher's side of the session with the master: the node's desired membership, its reports, and its state.
//!
//! Nothing here waits for the master but [`Membership::leave`], and that only for seconds. [`super::session`] delivers the
//! outbox to every master that comes, until one has received it.

use std::sync::Arc;
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::request::Op;

use super::Launch;
use super::group_failure::LastFailure;
use super::job_identity::JobIdentity;
use super::launch_end::LaunchEnd;
use super::master_status::{JobStatus, MasterStatus};
use super::node_state::{NodeState, Rejection};
use super::outbox::{DesiredMembership, LAUNCHER_ENDED, Outbox, RESTARTS_WORKERS};
use super::session::Session;

/// How long a launcher that ends waits for its outbox to be delivered.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How much longer it waits where a master is connected.
const CONNECTED_DELIVERY_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Membership {
    outbox: Arc<watch::Sender<Outbox>>,
    state: watch::Receiver<NodeState>,
    master_status: watch::Receiver<MasterStatus>,
    /// Address of the master.
    address: String,
    last_round: Option<u64>,
    /// The node has stood aside since it was last in a world.
    stood_aside: bool,
    /// The last failure in the current world, or since it.
    last_failure: Option<LastFailure>,
    session: JoinHandle<()>,
}

impl Membership {
    /// Starts the session with the master.
    pub(super) fn start(launch: &Launch) -> Self {
        let (name, incarnation) = &launch.node;
        let node = wire::Node { name: name.to_string(), incarnation: *incarnation };
        let outbox = Arc::new(watch::Sender::new(Outbox::new()));
        let (state_sender, state) = watch::channel(NodeState::Waiting { needed: false });
        let (status_sender, master_status) = watch::channel(MasterStatus::default());
        let address = launch.master_address.clone();
        let session = Session {
            master: launch.master.clone(),
            address: address.clone(),
            token_file: launch.token_file.clone(),
            job_identity: JobIdentity::new(launch.requested.job.clone()),
            node,
            processes: launch.processes,
            outbox: Arc::clone(&outbox),
            state: state_sender,
            master_status: status_sender,
        };
        let session = tokio::spawn(session.run());
        let (last_round, stood_aside, last_failure) = (None, false, None);
        Self { outbox, state, master_status, address, last_round, stood_aside, last_failure, session }
    }

    /// Waits for a master, and returns the status of its job or why it rejects this node.
    pub(super) async fn await_job(&mut self) -> Result<JobStatus, Rejection> {
        // A receiver of its own, so that `next_state` still sees every state as new.
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            Ok(status) = self.master_status.wait_for(|status| status.job.is_some()) => {
                if let Some(job) = status.job.clone() {
                    return Ok(job);
                }
            }
            Ok(state) = state.wait_for(|state| matches!(state, NodeState::Rejected(_))) => {
                if let NodeState::Rejected(rejection) = &*state {
                    return Err(rejection.clone());
                }
            }
            else => {}
        }
        // The session task has ended without a result.
        std::future::pending().await
    }

    /// The job, as the master last described it.
    pub(super) fn job(&self) -> Option<JobStatus> {
        self.master_status.borrow().job.clone()
    }

    /// What a node that is in no world waits for, as text.
    pub(super) fn describe_wait(&self) -> String {
        self.master_status.borrow().describe_wait(&self.address)
    }

    /// Whether the run is closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), NodeState::Closed(_))
    }

    /// Wants to be in the next world.
    pub(super) fn join(&mut self, survives: bool) {
        let (after, stood_aside) = (self.last_round, self.stood_aside);
        self.set_desired(DesiredMembership::NextWorld { after, survives, stood_aside });
    }

    /// Wants the current world and no other. Failures before it count no more.
    pub(super) fn stay(&mut self) {
        (self.stood_aside, self.last_failure) = (false, None);
        self.set_desired(DesiredMembership::Current);
    }

    /// The program has succeeded on this node.
    pub(super) fn finish(&mut self) {
        self.set_desired(DesiredMembership::Finished { stood_aside: self.stood_aside });
    }

    /// Whether the node has stood aside since it was last in a world.
    pub(super) fn has_stood_aside(&self) -> bool {
        self.stood_aside
    }

    /// Whether this node is outside and the other nodes are too few for a world.
    pub(super) fn is_needed(&self) -> bool {
        matches!(*self.state.borrow(), NodeState::Waiting { needed: true })
    }

    /// Waits until there has been no master for `limit`, and returns that; for ever where there is no limit.
    pub(super) fn master_missing_for(&self, limit: Option<Duration>) -> impl Future<Output = Duration> + use<> {
        let mut status = self.master_status.clone();
        async move {
            let Some(limit) = limit else { return std::future::pending().await };
            while status.wait_for(|status| status.unavailable.is_some()).await.is_ok() {
                if timeout(limit, status.wait_for(|status| status.unavailable.is_none())).await.is_err() {
                    return limit;
                }
            }
            std::future::pending().await
        }
    }

    /// Leaves the world for a while, so that other nodes can go on without this one.
    pub(super) fn stand_aside(&mut self) {
        self.stood_aside = true;
        self.set_desired(DesiredMembership::Absent(RESTARTS_WORKERS));
    }

    /// Whether the node's processes survive changes of the world that it is in.
    pub(super) fn set_survives_changes(&mut self, survives: bool) {
        self.outbox.send_if_modified(|outbox| std::mem::replace(&mut outbox.survives_changes, survives) != survives);
    }

    /// The launcher ends, which may take its workers a while. From here on the node joins no world, whatever master comes.
    pub(super) fn stop_joining(&mut self) {
        self.outbox.send_if_modified(Outbox::stop_joining);
    }

    /// Reports an event of this node to the master.
    pub(super) fn report(&mut self, op: Op) {
        self.outbox.send_modify(|outbox| outbox.report(op));
    }

    /// The program has failed on this node.
    pub(super) fn record_failure(&mut self, failure: LastFailure) {
        self.last_failure = Some(failure);
    }

    /// Waits for the next state of the node. Worlds that it has been in before are skipped.
    pub(super) async fn next_state(&mut self) -> NodeState {
        loop {
            if self.state.changed().await.is_err() {
                // The session has ended; the rejection was returned before.
                return std::future::pending().await;
            }
            let state = self.state.borrow_and_update().clone();
            match &state {
                NodeState::InWorld(world) if self.last_round.is_some_and(|last| world.round <= last) => {}
                NodeState::Restart { round, .. } if self.last_round.is_some_and(|last| *round < last) => {}
                NodeState::Restart { round, .. } => {
                    // Perhaps of a world that ended before the node saw it.
                    self.last_round = Some(*round);
                    return state;
                }
                NodeState::InWorld(world) => {
                    self.last_round = Some(world.round);
                    return state;
                }
                NodeState::Waiting { .. } | NodeState::Closed(_) | NodeState::Rejected(_) => return state,
            }
        }
    }

    /// Leaves for good. Delivers the outbox if the master can be reached; a rejected node delivers nothing. Returns the
    /// last failure of the program on this node.
    pub(super) async fn leave(self, end: Option<&LaunchEnd>) -> Option<LastFailure> {
        if !matches!(end, Some(LaunchEnd::Fenced(_) | LaunchEnd::OtherJob(_) | LaunchEnd::Token(_))) {
            self.set_desired(DesiredMembership::Absent(LAUNCHER_ENDED));
            let mut outbox = self.outbox.subscribe();
            let mut delivered = timeout(DELIVERY_TIMEOUT, outbox.wait_for(|outbox| outbox.delivered)).await.is_ok();
            if !delivered && outbox.borrow().connected {
                let delivery = outbox.wait_for(|outbox| outbox.delivered);
                delivered = timeout(CONNECTED_DELIVERY_TIMEOUT, delivery).await.is_ok();
            }
            if !delivered {
                tracing::debug!("the master could not be told that this node leaves");
            }
        }
        self.session.abort();
        self.last_failure
    }

    fn set_desired(&self, desired: DesiredMembership) {
        self.outbox.send_if_modified(|outbox| outbox.set_desired(desired));
    }
}
