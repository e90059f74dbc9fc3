//! Every push is applied once when the master, the old primary or the new primary is killed in any phase of a move.
//!
//! A test extends a phase by holding back the message that ends it.

use flexor_wire::master::v1 as wire;
use wire::from_server::Message as FromServer;
use wire::sync_report::State;
use wire::to_server::Message as ToServer;

use crate::cluster::Cluster;
use crate::exactly_once::{PushLoad, assert_counted};
use crate::gate::{GatedMessage, IsHeld};

/// The server that partitions move to.
const NEW: &str = "ps-2";

/// The phase of a move.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The new replica is in sync; the master does not know yet.
    Syncing,
    /// The master has ordered the freeze; the old primary has not received it.
    Freezing,
    /// The old primary has frozen the partition; the master does not know yet.
    Frozen,
    /// The new partition map is committed; the old primary has not received it.
    OldPrimaryUninformed,
    /// The new partition map is committed; the new primary has not received it.
    NewPrimaryUninformed,
}

const ALL: [Phase; 5] =
    [Phase::Syncing, Phase::Freezing, Phase::Frozen, Phase::OldPrimaryUninformed, Phase::NewPrimaryUninformed];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Master,
    OldPrimary,
    NewPrimary,
}

impl Phase {
    /// Matches the message that ends the phase.
    fn ending_message(self) -> IsHeld {
        fn reports(message: &GatedMessage<'_>, state: State) -> bool {
            matches!(message, GatedMessage::ToMaster(FromServer::Sync(report)) if report.state() == state)
        }
        fn plan<'a>(message: &GatedMessage<'a>) -> Option<(&'a str, &'a wire::ServerPlan)> {
            match message {
                GatedMessage::ToServer(server, ToServer::Plan(plan)) => Some((server, plan)),
                GatedMessage::ToServer(..) | GatedMessage::ToMaster(_) => None,
            }
        }
        fn has_moved(plan: &wire::ServerPlan) -> bool {
            let map = plan.map.clone().unwrap_or_default();
            let primaries = map.partitions.iter().filter_map(|replicas| map.servers.get(replicas.primary? as usize));
            primaries.into_iter().any(|primary| primary.name == NEW)
        }
        match self {
            Self::Syncing => |message| reports(message, State::InSync),
            Self::Freezing => {
                |message| plan(message).is_some_and(|(_, plan)| plan.syncs.iter().any(|sync| sync.freeze))
            }
            Self::Frozen => |message| reports(message, State::Frozen),
            Self::OldPrimaryUninformed => {
                |message| plan(message).is_some_and(|(server, plan)| server != NEW && has_moved(plan))
            }
            Self::NewPrimaryUninformed => {
                |message| plan(message).is_some_and(|(server, plan)| server == NEW && has_moved(plan))
            }
        }
    }

    fn is_committed(self) -> bool {
        matches!(self, Self::OldPrimaryUninformed | Self::NewPrimaryUninformed)
    }
}

/// Kills the victim in a phase while clients push, and asserts that every push was applied once.
async fn assert_every_push_is_applied_once(replication_factor: u32, phase: Phase, victim: Victim) {
    let state = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::behind_gate(replication_factor, state.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    let pushing = PushLoad::start(&cluster, 2).await;
    pushing.more(5).await;
    cluster.gate().hold(phase.ending_message());
    cluster.add(NEW);
    cluster.report_desired(3, &[]);
    let caught = cluster.gate().caught().await;
    let old = if caught == NEW { "ps-0".to_owned() } else { caught };

    let gone = match victim {
        Victim::Master => None,
        Victim::OldPrimary => Some(old.as_str()),
        Victim::NewPrimary => Some(NEW),
    };
    match gone {
        None => {
            cluster.kill_master();
            cluster.gate().open();
            cluster.start_master().await;
        }
        Some(server) => {
            cluster.kill(server);
            // The controller reports the loss before the master gets any held message.
            cluster.report_desired(3, &[]);
            cluster.gate().open();
            cluster.add(server);
        }
    }
    cluster.report_desired(3, &[]);
    cluster.wait_settled().await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_master_does_not_wait_for_a_server_that_was_killed_with_it() {
    let state = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::behind_gate(2, state.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    let pushing = PushLoad::start(&cluster, 2).await;
    pushing.more(5).await;
    cluster.kill_master();
    cluster.kill("ps-1");
    cluster.start_master().await;
    // The first report of the controller to the new master does not contain the killed pod.
    cluster.report_desired(2, &[]);
    let names: Vec<String> = cluster.status().servers.into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["ps-0"], "the backup is promoted at once");
    cluster.add("ps-2");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

macro_rules! killed_with_two_replicas {
    ($($name:ident: $phase:ident, $victim:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            assert_every_push_is_applied_once(2, Phase::$phase, Victim::$victim).await;
        }
    )*};
}

killed_with_two_replicas! {
    the_master_is_killed_during_the_sync: Syncing, Master;
    the_old_primary_is_killed_during_the_sync: Syncing, OldPrimary;
    the_new_primary_is_killed_during_the_sync: Syncing, NewPrimary;
    the_master_is_killed_after_it_ordered_the_freeze: Freezing, Master;
    the_old_primary_is_killed_before_the_freeze: Freezing, OldPrimary;
    the_new_primary_is_killed_before_the_freeze: Freezing, NewPrimary;
    the_master_is_killed_after_the_freeze: Frozen, Master;
    the_old_primary_is_killed_after_the_freeze: Frozen, OldPrimary;
    the_new_primary_is_killed_after_the_freeze: Frozen, NewPrimary;
    the_master_is_killed_before_the_old_primary_gets_the_map: OldPrimaryUninformed, Master;
    the_old_primary_is_killed_before_it_gets_the_map: OldPrimaryUninformed, OldPrimary;
    the_new_primary_is_killed_before_the_old_one_gets_the_map: OldPrimaryUninformed, NewPrimary;
    the_master_is_killed_before_the_new_primary_gets_the_map: NewPrimaryUninformed, Master;
    the_old_primary_is_killed_before_the_new_one_gets_the_map: NewPrimaryUninformed, OldPrimary;
    the_new_primary_is_killed_before_it_gets_the_map: NewPrimaryUninformed, NewPrimary;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_replica_the_master_may_be_killed_in_any_phase() {
    for phase in ALL {
        assert_every_push_is_applied_once(1, phase, Victim::Master).await;
    }
}

/// After the commit only the new primary has the partition; before it, the old primary has everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_replica_the_new_primary_may_be_killed_until_the_map_is_committed() {
    for phase in ALL.into_iter().filter(|phase| !phase.is_committed()) {
        assert_every_push_is_applied_once(1, phase, Victim::NewPrimary).await;
    }
}
