//! The launcher's side of the session with the master: what this node wants and what happened on it, and where it stands.
//!
//! Nothing here waits for the master but the end, and that not for long. What is written down is delivered by
//! [`super::session`], to every master that comes until one has heard it.

use std::sync::Arc;
use std::time::Duration;

use flexor_store::sidecar::Upstream;
use flexor_wire::master::v1 as wire;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::request::Op;

use super::errands::{ASIDE, Errands, Wanted};
use super::outcome::Over;
use super::place::Place;
use super::session::Session;
use crate::workers::FailureReport;

/// How long the last errands may take where no master answers.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(1);
/// How much longer where one does.
const LAST_WORD_HEARD_WITHIN: Duration = Duration::from_secs(4);

pub(super) struct Membership {
    errands: Arc<watch::Sender<Errands>>,
    place: watch::Receiver<Place>,
    last_round: Option<u64>,
    /// It has stood aside since it was last in a world.
    apart: bool,
    last_failure: Option<FailureReport>,
    session: JoinHandle<()>,
}

impl Membership {
    pub(super) fn begin(master: Upstream, (name, incarnation): (Arc<str>, u64), processes: u32) -> Self {
        let node = wire::Node { name: name.to_string(), incarnation };
        let errands = Arc::new(watch::Sender::new(Errands::new()));
        let (told, place) = watch::channel(Place::Waiting);
        let session = Session { master, node, processes, errands: Arc::clone(&errands), told };
        let session = tokio::spawn(session.keep());
        Self { errands, place, last_round: None, apart: false, last_failure: None, session }
    }

    /// Wants to be in the next world.
    pub(super) fn join(&mut self, survives: bool) {
        self.want(Wanted::World { after: self.last_round, survives, apart: self.apart });
    }

    /// Wants nothing but what it has.
    pub(super) fn stay(&mut self) {
        self.apart = false;
        self.want(Wanted::Nothing);
    }

    /// The program has ended well here.
    pub(super) fn finish(&mut self) {
        self.want(Wanted::Rest);
    }

    /// Wants to be in no world for a while, so that others can go on without this node.
    pub(super) fn stand_aside(&mut self) {
        self.apart = true;
        self.want(Wanted::Absence(ASIDE));
    }

    /// Something happened that the master should know.
    pub(super) fn report(&mut self, op: Op) {
        self.errands.send_modify(|errands| errands.report(op));
    }

    /// The program has failed here.
    pub(super) fn failed(&mut self, report: FailureReport) {
        self.last_failure = Some(report);
    }

    /// Where the node stands, when that is something else than before. Worlds that it has been in before are no news.
    pub(super) async fn changed(&mut self) -> Place {
        loop {
            if self.place.changed().await.is_err() {
                // Whoever is fenced has been told so.
                return std::future::pending().await;
            }
            let place = self.place.borrow_and_update().clone();
            match &place {
                Place::InWorld(world) if self.last_round.is_some_and(|last| world.round <= last) => {}
                Place::Restart { round, .. } if self.last_round.is_some_and(|last| *round < last) => {}
                Place::Restart { round, .. } => {
                    // Perhaps of a world that ended before it was seen.
                    self.last_round = Some(*round);
                    return place;
                }
                Place::InWorld(world) => {
                    self.last_round = Some(world.round);
                    return place;
                }
                Place::Waiting | Place::Closed(_) | Place::Fenced(_) => return place,
            }
        }
    }

    /// Leaves for good, and says so and all that is left to say if the master can be reached. Gives the last failure of
    /// the program here.
    ///
    /// One whose place another life of the node has taken says nothing.
    pub(super) async fn end(self, over: Option<&Over>) -> Option<FailureReport> {
        if !matches!(over, Some(Over::Fenced(_))) {
            self.want(Wanted::Absence("its launcher has ended"));
            let mut errands = self.errands.subscribe();
            let mut settled = timeout(LAST_WORD_WITHIN, errands.wait_for(|errands| errands.settled)).await.is_ok();
            if !settled && errands.borrow().linked {
                settled = timeout(LAST_WORD_HEARD_WITHIN, errands.wait_for(|errands| errands.settled)).await.is_ok();
            }
            if !settled {
                tracing::debug!("the master could not be told that this node leaves");
            }
        }
        self.session.abort();
        self.last_failure
    }

    fn want(&self, wanted: Wanted) {
        self.errands.send_if_modified(|errands| errands.want(wanted));
    }
}
