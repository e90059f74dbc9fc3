//! Servers connect, drain and are lost.

mod master_pauses;

use super::*;

const PARTITIONS: u32 = 12;

pub(super) fn server(name: &str) -> ServerId {
    ServerId::new(name, 1)
}

fn settings(replication_factor: u32, mode: Mode) -> Settings {
    Settings { partitions: PARTITIONS, replication_factor, mode, ..Settings::default() }
}

/// A membership with servers that carry out every order at once.
pub(super) struct Story {
    pub(super) members: PsMembership,
    pub(super) facts: Vec<Fact>,
    pub(super) now: Duration,
}

impl Story {
    pub(super) fn start(replication_factor: u32, mode: Mode, names: &[&str]) -> Self {
        let mut story = Self {
            members: PsMembership::new(settings(replication_factor, mode)),
            facts: Vec::new(),
            now: Duration::from_secs(1),
        };
        story.set_desired(names.len() as u32, &[]);
        for name in names {
            story.connect(name, 1);
        }
        story.run_orders();
        story
    }

    pub(super) fn set_desired(&mut self, expected: u32, leaving: &[&str]) {
        let leaving = leaving.iter().map(|name| Arc::from(*name)).collect();
        self.members.set_desired(&DesiredServers { expected: Some(expected), leaving }, self.now, &mut self.facts);
    }

    pub(super) fn connect(&mut self, name: &str, incarnation: u64) {
        self.members
            .connect_server(&ServerId::new(name, incarnation), "127.0.0.1:1", self.now, &mut self.facts)
            .unwrap();
    }

    pub(super) fn kill(&mut self, name: &str) {
        let cause = Cause::new(Reason::ServerLost, format!("{name} was killed"));
        self.members.remove_server(&server(name), &cause, self.now, &mut self.facts);
    }

    pub(super) fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.members.tick(self.now, &mut self.facts);
        }
    }

    /// The master process is stopped for a while; then it ticks once.
    pub(super) fn pause_master(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.members.tick(self.now, &mut self.facts);
    }

    /// Servers carry out sync orders until there are none left.
    pub(super) fn run_orders(&mut self) {
        for _ in 0..1000 {
            let orders: Vec<(ServerId, SyncOrder)> = self
                .members
                .servers()
                .flat_map(|id| self.members.sync_orders(&id).into_iter().map(move |order| (id.clone(), order)))
                .collect();
            if orders.is_empty() {
                return;
            }
            for (id, SyncOrder { partition, sync_id, freeze, .. }) in orders {
                match freeze {
                    true => self.members.confirm_freeze(&id, partition, sync_id, self.now, &mut self.facts),
                    false => self.members.complete_sync(&id, partition, sync_id, self.now, &mut self.facts),
                }
            }
        }
        panic!("the orders never end");
    }

    pub(super) fn primaries_of(&self, name: &str) -> usize {
        let is_primary =
            |replicas: &&PartitionReplicas| replicas.primary.as_ref().is_some_and(|primary| *primary.name == *name);
        self.members.map().partitions.iter().filter(is_primary).count()
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let reason = |fact: &Fact| match fact {
            Fact::MapChanged { cause, .. } | Fact::Rewound { cause, .. } | Fact::CheckpointDamaged { cause, .. } => {
                Some(cause.reason)
            }
            Fact::ModelDeclared { .. }
            | Fact::CheckpointStarted { .. }
            | Fact::CheckpointCompleted { .. }
            | Fact::UpdatesLost { .. }
            | Fact::VersionsAcknowledged { .. }
            | Fact::GenerationsStarted { .. } => None,
        };
        self.facts.iter().filter_map(reason).collect()
    }
}

#[test]
fn the_first_map_waits_for_all_expected_servers() {
    let mut story = Story::start(1, Mode::Async, &[]);
    story.set_desired(2, &[]);
    story.connect("ps-0", 1);
    assert_eq!(story.members.map().epoch, MapEpoch(0));
    story.connect("ps-1", 1);
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
    assert_eq!(story.reasons(), [Reason::PsMembershipFormed]);
    assert!(story.members.is_balanced() && story.members.is_fully_replicated());
}

#[test]
fn without_a_controller_the_first_map_takes_the_servers_that_connected() {
    let mut story = Story::start(1, Mode::Async, &[]);
    story.members.set_desired(&DesiredServers::default(), story.now, &mut story.facts);
    story.connect("ps-0", 1);
    assert_eq!(story.members.map().epoch, MapEpoch(0));
    story.advance(1);
    assert_eq!(story.primaries_of("ps-0"), 12);
}

#[test]
fn a_new_server_takes_its_share_without_a_new_generation() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
    assert!(story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1));
    assert!(story.members.is_balanced());
}

#[test]
fn a_server_is_released_when_it_is_drained() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.set_desired(1, &["ps-1"]);
    assert_eq!(story.members.released().count(), 0);
    story.run_orders();
    assert_eq!(story.primaries_of("ps-0"), 12);
    // There is no other server for backups, so the leaving one keeps them until it is released.
    let released: Vec<&str> = story.members.released().map(|name| &**name).collect();
    assert_eq!(released, ["ps-1"]);
}

#[test]
fn a_draining_server_gets_no_more_partitions() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.connect("ps-1", 1);
    // Transfers to the server run when it starts to drain; the controller does not know of that.
    assert!(!story.members.sync_orders(&server("ps-0")).is_empty());
    assert!(!story.members.is_released(&server("ps-1")), "it does not drain yet");
    story.members.drain_server(&server("ps-1"), story.now, &mut story.facts);
    assert!(story.members.sync_orders(&server("ps-0")).is_empty() && story.members.is_released(&server("ps-1")));
    story.run_orders();
    story.advance(1);
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (12, 0));

    // A server with partitions hands them over first, and a later incarnation is welcome.
    story.connect("ps-1", 2);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
    story.members.drain_server(&server("ps-0"), story.now, &mut story.facts);
    assert!(!story.members.is_released(&server("ps-0")));
    story.run_orders();
    assert!(story.members.is_released(&server("ps-0")) && story.primaries_of("ps-1") == 12);
    assert!(
        story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1),
        "no partition has a new generation"
    );
}

#[test]
fn a_controller_may_keep_a_disconnected_server_after_all() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.set_desired(1, &["ps-1"]);
    story.members.disconnect_server(&server("ps-1"), story.now);
    story.connect("ps-1", 1);
    story.set_desired(2, &[]);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
}

#[test]
fn a_disconnected_server_gets_no_partitions() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    let orders = story.members.sync_orders(&server("ps-0"));
    story.members.disconnect_server(&server("ps-1"), story.now);
    for SyncOrder { partition, sync_id, .. } in &orders {
        story.members.complete_sync(&server("ps-0"), *partition, *sync_id, story.now, &mut story.facts);
        story.members.confirm_freeze(&server("ps-0"), *partition, *sync_id, story.now, &mut story.facts);
    }
    assert!(!orders.is_empty() && story.primaries_of("ps-1") == 0);
    story.connect("ps-1", 1);
    story.advance(1);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
}

#[test]
fn a_server_is_replaced_by_another() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.connect("ps-2", 1);
    story.set_desired(1, &["ps-0"]);
    story.run_orders();
    assert_eq!(story.primaries_of("ps-2"), 12);
    assert_eq!(story.members.released().map(|name| &**name).collect::<Vec<_>>(), ["ps-0"]);
    assert!(story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1));
}

#[test]
fn a_replica_on_a_disconnected_server_does_not_count() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.members.disconnect_server(&server("ps-0"), story.now);
    assert!(!story.members.is_fully_replicated() && story.members.is_disconnected(&server("ps-0")));
    story.connect("ps-0", 1);
    assert!(story.members.is_fully_replicated() && !story.members.is_disconnected(&server("ps-0")));
}

#[test]
fn a_backup_takes_over_at_once() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    assert!(story.members.is_fully_replicated());
    story.kill("ps-0");
    assert_eq!(story.primaries_of("ps-1"), 12);
    assert!(!story.members.is_fully_replicated());
    assert!(story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1));
    story.connect("ps-0", 2);
    story.run_orders();
    assert!(story.members.is_fully_replicated() && story.members.is_balanced());
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
}

#[test]
fn every_partition_gets_a_backup_before_any_primary_moves() {
    let mut story = Story::start(2, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    let orders = story.members.sync_orders(&server("ps-0"));
    assert_eq!(orders.len(), 12);
    for SyncOrder { partition, sync_id, .. } in orders {
        assert!(!story.members.is_fully_replicated());
        story.members.complete_sync(&server("ps-0"), partition, sync_id, story.now, &mut story.facts);
    }
    assert!(story.members.is_fully_replicated());
    assert_eq!(story.primaries_of("ps-0"), 12);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
    story.kill("ps-0");
    assert!(
        story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1),
        "no partition has a new generation"
    );
}

#[test]
fn a_partition_without_a_replica_restarts_from_the_last_checkpoint() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.complete_a_checkpoint();
    story.kill("ps-1");
    assert_eq!(story.members.map().partitions.iter().filter(|replicas| replicas.primary.is_none()).count(), 6);
    story.connect("ps-1", 2);
    let again = story.members.map().partitions.iter().filter(|replicas| replicas.generation.number == 2);
    assert!(again.clone().all(|replicas| replicas.generation.source == Source::Checkpoint(1)));
    assert_eq!(again.count(), 6);
    assert_eq!(story.reasons().last(), Some(&Reason::PartitionsRestored));
}

#[test]
fn other_servers_restore_partitions_when_no_replacement_joins() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.kill("ps-1");
    story.advance(4);
    assert_eq!(story.primaries_of("ps-0"), 6);
    story.advance(2);
    assert_eq!(story.primaries_of("ps-0"), 12);
}

#[test]
fn in_synchronous_training_all_partitions_are_rewound_together() {
    let mut story = Story::start(1, Mode::Sync, &["ps-0", "ps-1"]);
    story.complete_a_checkpoint();
    story.kill("ps-1");
    story.connect("ps-1", 2);
    assert!(story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 2));
    assert!(matches!(story.facts.last(), Some(Fact::Rewound { checkpoint: Some(1), .. })));
}

#[test]
fn a_sync_without_progress_is_aborted_and_retried() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    let first = story.members.sync_orders(&server("ps-0"));
    assert_eq!(first.len(), 6);
    story.advance(30);
    assert_eq!(story.members.sync_orders(&server("ps-0")), []);
    // A late report about the aborted sync changes nothing.
    story.members.complete_sync(&server("ps-0"), first[0].partition, first[0].sync_id, story.now, &mut story.facts);
    assert_eq!(story.primaries_of("ps-0"), 12);
    story.advance(6);
    story.run_orders();
    assert_eq!(story.primaries_of("ps-1"), 6);
}

#[test]
fn a_started_backup_transfer_completes_though_its_target_has_changed() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.set_desired(3, &[]);
    story.connect("ps-2", 1);
    let backup_transfers = |story: &Story| -> Vec<u64> {
        let transfers =
            story.members.transfers.values().filter(|transfer| transfer.target_role == transfers::TargetRole::Backup);
        transfers.map(|transfer| transfer.sync_id).collect()
    };
    let started = backup_transfers(&story);
    story.set_desired(4, &[]);
    story.connect("ps-3", 1);
    assert!(!started.is_empty() && started.iter().all(|sync_id| backup_transfers(&story).contains(sync_id)));
    story.run_orders();
    assert!(story.members.is_balanced() && story.members.is_fully_replicated());
}

#[test]
fn a_transfer_to_a_lost_server_is_aborted() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    for order in story.members.sync_orders(&server("ps-0")) {
        story.members.complete_sync(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    assert!(story.members.sync_orders(&server("ps-0")).iter().all(|order| order.freeze));
    story.kill("ps-1");
    assert_eq!(story.members.sync_orders(&server("ps-0")), []);
    assert_eq!(story.primaries_of("ps-0"), 12);
}

#[test]
fn an_in_sync_receiver_takes_over_from_a_lost_primary() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.connect("ps-1", 1);
    story.set_desired(1, &["ps-0"]);
    for order in story.members.sync_orders(&server("ps-0")) {
        story.members.complete_sync(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    story.kill("ps-0");
    assert_eq!(story.primaries_of("ps-1"), 12);
    assert!(story.members.map().partitions.iter().all(|replicas| replicas.generation.number == 1));
}

#[test]
fn an_in_sync_receiver_takes_over_before_a_disconnected_backup() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.connect("ps-2", 1);
    story.set_desired(2, &["ps-0"]);
    let orders = story.members.sync_orders(&server("ps-0"));
    let to_receiver: Vec<Partition> =
        orders.iter().filter(|one| one.to == server("ps-2")).map(|one| one.partition).collect();
    assert!(!to_receiver.is_empty());
    for order in orders {
        story.members.complete_sync(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    story.members.disconnect_server(&server("ps-1"), story.now);
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(10);
    let replicas = || to_receiver.iter().map(|id| story.members.map().replicas(*id).unwrap());
    assert!(
        replicas().all(|replicas| replicas.primary == Some(server("ps-2")) && replicas.generation.number == 1),
        "{:#?}",
        story.members.map()
    );
}

#[test]
fn a_disconnected_server_has_a_grace_period() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    let epoch = story.members.map().epoch;
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(1);
    assert_eq!(story.members.map().epoch, epoch);
    story.connect("ps-0", 1);
    story.advance(5);
    assert_eq!(story.members.map().epoch, epoch);
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(3);
    assert_eq!(story.primaries_of("ps-1"), 12);
}

#[test]
fn a_restarted_master_waits_for_the_servers_in_the_map() {
    let story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    let mut again = PsMembership::default();
    story.facts.iter().for_each(|fact| again.replay(fact));
    let again = again.resume(settings(1, Mode::Async), 2, Duration::from_secs(5));
    let mut again = Story { members: again, facts: Vec::new(), now: Duration::from_secs(5) };
    again.set_desired(2, &[]);
    again.advance(9);
    assert_eq!((again.members.map(), again.facts.len()), (story.members.map(), 0));
    again.connect("ps-0", 1);
    again.advance(2);
    assert_eq!(
        (again.members.map(), again.facts.len()),
        (story.members.map(), 0),
        "the missing server has the only replicas"
    );
    again.advance(5);
    let restarted = again.members.map().partitions.iter().filter(|replicas| replicas.generation.number == 2).count();
    assert_eq!(restarted, 6, "the server that did not reconnect is lost");
}

#[test]
fn a_sole_replica_is_waited_for_longer() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(6);
    assert_eq!(*story.members.map(), map, "the process may have been stopped for a while");
    story.connect("ps-0", 1);
    story.advance(60);
    assert_eq!(*story.members.map(), map);
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(8);
    assert_eq!(story.primaries_of("ps-1"), 12);
    assert_eq!(story.members.map().partitions.iter().filter(|replicas| replicas.generation.number == 2).count(), 6);
}

#[test]
fn partitions_that_get_a_new_primary_freeze_together() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    let orders = |story: &Story| story.members.sync_orders(&server("ps-0"));
    let started = orders(&story);
    let (last, others) = started.split_last().unwrap();
    let epoch = story.members.map().epoch;
    for order in others {
        story.members.complete_sync(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    assert!(orders(&story).iter().all(|order| !order.freeze), "one sync is still running");
    story.members.complete_sync(&server("ps-0"), last.partition, last.sync_id, story.now, &mut story.facts);
    assert!(orders(&story).len() == started.len() && orders(&story).iter().all(|order| order.freeze));
    for order in others {
        story.members.confirm_freeze(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    assert_eq!(story.members.map().epoch, epoch, "one partition is not frozen yet");
    story.advance(3);
    assert_eq!(story.members.map().epoch.0, epoch.0 + 1, "the freeze has timed out");
    assert_eq!(story.primaries_of("ps-1"), others.len());
    story.advance(1);
    story.run_orders();
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
}

#[test]
fn an_earlier_incarnation_is_refused() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.connect("ps-0", 3);
    let refused =
        story.members.connect_server(&server("ps-0"), "127.0.0.1:1", story.now, &mut story.facts).unwrap_err();
    assert_eq!(refused.reason, Reason::ServerReplaced);
}

#[test]
fn another_model_is_refused() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.members.declare_model("deepfm:dim=8", &mut story.facts).unwrap();
    story.members.declare_model("deepfm:dim=8", &mut story.facts).unwrap();
    let refused = story.members.declare_model("deepfm:dim=16", &mut story.facts).unwrap_err();
    assert_eq!(refused.reason, Reason::ModelDiffers);
    assert_eq!(story.members.model(), Some("deepfm:dim=8"));
}
