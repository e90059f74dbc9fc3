//! The launcher's side of the session with the master: what this node wants and what happened on it, and where it stands.
//!
//! Nothing here waits for the master but the end, and that not for long. What is written down is delivered by
//! [`super::session`], to every master that comes until one has heard it.

use std::sync::Arc;
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::request::Op;

use super::Launch;
use super::belonging::Belonging;
use super::errands::{ASIDE, ENDS, Errands, Wanted};
use super::failing::LastFailure;
use super::known::{Known, KnownJob};
use super::outcome::Over;
use super::place::{Bar, Place};
use super::session::Session;

/// How long the last errands may take where no master answers.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(1);
/// How much longer where one does.
const LAST_WORD_HEARD_WITHIN: Duration = Duration::from_secs(4);

pub(super) struct Membership {
    errands: Arc<watch::Sender<Errands>>,
    place: watch::Receiver<Place>,
    known: watch::Receiver<Known>,
    /// Where the master is.
    address: String,
    last_round: Option<u64>,
    /// It has stood aside since it was last in a world.
    apart: bool,
    /// What went wrong last in the world that the node is in, or to get into the next one.
    last_failure: Option<LastFailure>,
    session: JoinHandle<()>,
}

impl Membership {
    /// Dials the master, and wants nothing yet.
    pub(super) fn begin(launch: &Launch) -> Self {
        let (name, incarnation) = &launch.node;
        let node = wire::Node { name: name.to_string(), incarnation: *incarnation };
        let errands = Arc::new(watch::Sender::new(Errands::new()));
        let ((place_sender, place), (known_sender, known)) =
            (watch::channel(Place::Waiting { needed: false }), watch::channel(Known::default()));
        let address = launch.master_address.clone();
        let session = Session {
            master: launch.master.clone(),
            address: address.clone(),
            token_file: launch.token_file.clone(),
            belonging: Belonging::new(launch.asked.job.clone()),
            node,
            processes: launch.processes,
            errands: Arc::clone(&errands),
            place: place_sender,
            known: known_sender,
        };
        let session = tokio::spawn(session.keep());
        Self { errands, place, known, address, last_round: None, apart: false, last_failure: None, session }
    }

    /// Waits for a master. What it says of its job, or why it will not have this node.
    pub(super) async fn met(&mut self) -> Result<KnownJob, Bar> {
        // Another one than that of `changed`, for which everything is news yet.
        let mut place = self.place.clone();
        tokio::select! {
            biased;
            Ok(known) = self.known.wait_for(|known| known.job.is_some()) => {
                if let Some(job) = known.job.clone() {
                    return Ok(job);
                }
            }
            Ok(place) = place.wait_for(|place| matches!(place, Place::Barred(_))) => {
                if let Place::Barred(bar) = &*place {
                    return Err(bar.clone());
                }
            }
            else => {}
        }
        // The session has ended without a word.
        std::future::pending().await
    }

    /// What the master last said of its job.
    pub(super) fn job(&self) -> Option<KnownJob> {
        self.known.borrow().job.clone()
    }

    /// What a node that is in no world waits for, in words.
    pub(super) fn waits_for(&self) -> String {
        self.known.borrow().waits_for(&self.address)
    }

    /// Whether there is nothing to take part in any more.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.place.borrow(), Place::Closed(_))
    }

    /// Wants to be in the next world.
    pub(super) fn join(&mut self, survives: bool) {
        self.want(Wanted::World { after: self.last_round, survives, apart: self.apart });
    }

    /// Wants nothing but the world that it has. What went wrong before is made good.
    pub(super) fn stay(&mut self) {
        (self.apart, self.last_failure) = (false, None);
        self.want(Wanted::Nothing);
    }

    /// The program has ended well here.
    pub(super) fn finish(&mut self) {
        self.want(Wanted::Rest { apart: self.apart });
    }

    /// Whether the node has stood aside since it was last in a world.
    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Whether those who are not outside, as this node is, are too few for a world.
    pub(super) fn is_needed(&self) -> bool {
        matches!(*self.place.borrow(), Place::Waiting { needed: true })
    }

    /// Until there has been no master for so long, which it gives. For ever, where that is no limit.
    pub(super) fn without_master(&self, limit: Option<Duration>) -> impl Future<Output = Duration> + use<> {
        let mut known = self.known.clone();
        async move {
            let Some(limit) = limit else { return std::future::pending().await };
            while known.wait_for(|known| known.away.is_some()).await.is_ok() {
                if timeout(limit, known.wait_for(|known| known.away.is_none())).await.is_err() {
                    return limit;
                }
            }
            std::future::pending().await
        }
    }

    /// Wants to be in no world for a while, so that others can go on without this node.
    pub(super) fn stand_aside(&mut self) {
        self.apart = true;
        self.want(Wanted::Absence(ASIDE));
    }

    /// Whether its processes outlive changes of the world that it is in.
    pub(super) fn outlives(&mut self, outlives: bool) {
        self.errands.send_if_modified(|errands| std::mem::replace(&mut errands.outlives, outlives) != outlives);
    }

    /// The launcher ends, which may take its workers a while: from here on it joins nothing, whatever master comes.
    pub(super) fn begin_to_end(&mut self) {
        self.errands.send_if_modified(Errands::want_no_more);
    }

    /// Something happened that the master should know.
    pub(super) fn report(&mut self, op: Op) {
        self.errands.send_modify(|errands| errands.report(op));
    }

    /// The program has failed here.
    pub(super) fn failed(&mut self, failure: LastFailure) {
        self.last_failure = Some(failure);
    }

    /// Where the node stands, when that is something else than before. Worlds that it has been in before are no news.
    pub(super) async fn changed(&mut self) -> Place {
        loop {
            if self.place.changed().await.is_err() {
                // Whoever is barred has been told so.
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
                Place::Waiting { .. } | Place::Closed(_) | Place::Barred(_) => return place,
            }
        }
    }

    /// Leaves for good, and says so and all that is left to say if the master can be reached. Gives the last failure of
    /// the program here.
    ///
    /// One that the master will not have says nothing.
    pub(super) async fn end(self, over: Option<&Over>) -> Option<LastFailure> {
        if !matches!(over, Some(Over::Fenced(_) | Over::OtherJob(_) | Over::Token(_))) {
            self.want(Wanted::Absence(ENDS));
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
