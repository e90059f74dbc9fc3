//! The master, the old owner or the new one is killed inside each phase of a move: every push counts once.
//!
//! A phase lasts as long as the test looks, because the message that would end it is held back.

use flexor_wire::master::v1 as wire;
use wire::copy_report::State;
use wire::from_server::Message as FromServer;
use wire::to_server::Message as ToServer;

use crate::cluster::Cluster;
use crate::exactly_once::{Pushing, assert_counted};
use crate::gate::{IsHeld, Said};

/// The server that takes over partitions of the others.
const NEW: &str = "ps-2";

/// How far a move is.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The copy has everything, and the master does not know it yet.
    Copying,
    /// The owner is asked to stop, and has not heard it yet.
    Freezing,
    /// The owner has stopped, and the master does not know it yet.
    Frozen,
    /// The map is decided and written down, and the old owner has not heard of it.
    OldOwnerUntold,
    /// The map is decided and written down, and the new owner has not heard of it.
    NewOwnerUntold,
}

const ALL: [Phase; 5] = [Phase::Copying, Phase::Freezing, Phase::Frozen, Phase::OldOwnerUntold, Phase::NewOwnerUntold];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Master,
    OldOwner,
    NewOwner,
}

impl Phase {
    /// What ends it.
    fn ends_with(self) -> IsHeld {
        fn reports(said: &Said<'_>, state: State) -> bool {
            matches!(said, Said::ToMaster(FromServer::Copy(report)) if report.state() == state)
        }
        fn plan<'a>(said: &Said<'a>) -> Option<(&'a str, &'a wire::ServerPlan)> {
            match said {
                Said::ToServer(server, ToServer::Plan(plan)) => Some((server, plan)),
                Said::ToServer(..) | Said::ToMaster(_) => None,
            }
        }
        fn has_moved(plan: &wire::ServerPlan) -> bool {
            let map = plan.map.clone().unwrap_or_default();
            let owners = map.seats.iter().filter_map(|seat| map.servers.get(seat.owner? as usize));
            owners.into_iter().any(|owner| owner.name == NEW)
        }
        match self {
            Self::Copying => |said| reports(said, State::Synced),
            Self::Freezing => |said| plan(said).is_some_and(|(_, plan)| plan.copies.iter().any(|copy| copy.freeze)),
            Self::Frozen => |said| reports(said, State::Frozen),
            Self::OldOwnerUntold => |said| plan(said).is_some_and(|(server, plan)| server != NEW && has_moved(plan)),
            Self::NewOwnerUntold => |said| plan(said).is_some_and(|(server, plan)| server == NEW && has_moved(plan)),
        }
    }

    fn is_decided(self) -> bool {
        matches!(self, Self::OldOwnerUntold | Self::NewOwnerUntold)
    }
}

/// Kills somebody in a phase, while clients push.
async fn every_push_counts_once(copies: u32, phase: Phase, victim: Victim) {
    let state = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::gated(copies, state.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.want(2, &[]);
    cluster.settled().await;
    let pushing = Pushing::start(&cluster, 2).await;
    pushing.more(5).await;
    cluster.gate().hold(phase.ends_with());
    cluster.add(NEW);
    cluster.want(3, &[]);
    let caught = cluster.gate().caught().await;
    let old = if caught == NEW { "ps-0".to_owned() } else { caught };

    let gone = match victim {
        Victim::Master => None,
        Victim::OldOwner => Some(old.as_str()),
        Victim::NewOwner => Some(NEW),
    };
    match gone {
        None => {
            cluster.kill_master();
            cluster.gate().open();
            cluster.start_master().await;
        }
        Some(server) => {
            cluster.kill(server);
            // Its controller says so before the master hears anything else.
            cluster.want(3, &[]);
            cluster.gate().open();
            cluster.add(server);
        }
    }
    cluster.want(3, &[]);
    cluster.settled().await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_with_the_master_is_not_waited_for() {
    let state = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::gated(2, state.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.want(2, &[]);
    cluster.settled().await;
    let pushing = Pushing::start(&cluster, 2).await;
    pushing.more(5).await;
    cluster.kill_master();
    cluster.kill("ps-1");
    cluster.start_master().await;
    // The first that the new master hears of its controller: there is no such pod.
    cluster.want(2, &[]);
    let names: Vec<String> = cluster.status().servers.into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["ps-0"], "what it kept is the other's at once");
    cluster.add("ps-2");
    cluster.want(2, &[]);
    cluster.settled().await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

macro_rules! killed_with_two_copies {
    ($($name:ident: $phase:ident, $victim:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            every_push_counts_once(2, Phase::$phase, Victim::$victim).await;
        }
    )*};
}

killed_with_two_copies! {
    the_master_is_killed_while_it_is_copied: Copying, Master;
    the_old_owner_is_killed_while_it_is_copied: Copying, OldOwner;
    the_new_owner_is_killed_while_it_is_copied: Copying, NewOwner;
    the_master_is_killed_when_it_has_asked_to_freeze: Freezing, Master;
    the_old_owner_is_killed_before_it_freezes: Freezing, OldOwner;
    the_new_owner_is_killed_before_the_old_one_freezes: Freezing, NewOwner;
    the_master_is_killed_when_it_is_frozen: Frozen, Master;
    the_old_owner_is_killed_when_it_is_frozen: Frozen, OldOwner;
    the_new_owner_is_killed_when_it_is_frozen: Frozen, NewOwner;
    the_master_is_killed_before_the_old_owner_hears_of_the_map: OldOwnerUntold, Master;
    the_old_owner_is_killed_before_it_hears_of_the_map: OldOwnerUntold, OldOwner;
    the_new_owner_is_killed_before_the_old_one_hears_of_the_map: OldOwnerUntold, NewOwner;
    the_master_is_killed_before_the_new_owner_hears_of_the_map: NewOwnerUntold, Master;
    the_old_owner_is_killed_before_the_new_one_hears_of_the_map: NewOwnerUntold, OldOwner;
    the_new_owner_is_killed_before_it_hears_of_the_map: NewOwnerUntold, NewOwner;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_copy_the_master_may_be_killed_in_any_phase() {
    for phase in ALL {
        every_push_counts_once(1, phase, Victim::Master).await;
    }
}

/// What is only with the new owner is gone with it; before that, the old one has everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_copy_the_new_owner_may_be_killed_until_the_map_is_decided() {
    for phase in ALL.into_iter().filter(|phase| !phase.is_decided()) {
        every_push_counts_once(1, phase, Victim::NewOwner).await;
    }
}
