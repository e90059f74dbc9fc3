//! Checkpoints that complete, and checkpoints that do not.

use super::super::tests::{Story, server};
use super::super::{DesiredServers, Settings};
use super::*;

impl Story {
    /// Starts a checkpoint: every server has orders to write.
    fn start_a_checkpoint(&mut self) {
        self.members.declare_model("model", &mut self.facts).unwrap();
        assert!(self.members.start_checkpoint(self.now, &mut self.facts));
        self.members.start_writing("ledger", None, self.now, &mut self.facts);
    }

    fn order(&self, name: &str) -> Option<CheckpointOrder> {
        self.members.servers().find(|id| *id.name == *name).and_then(|id| self.members.checkpoint_order(&id))
    }

    fn write_part(&mut self, name: &str) {
        let number = self.order(name).unwrap().number;
        let id = self.members.servers().find(|id| *id.name == *name).unwrap();
        self.members.record_part(&id, number, name, self.now, &mut self.facts);
    }

    pub(in super::super) fn complete_a_checkpoint(&mut self) {
        self.start_a_checkpoint();
        let servers: Vec<ServerId> = self.members.servers().collect();
        for id in &servers {
            self.write_part(&id.name);
        }
        let sealer = servers.iter().find(|id| self.members.checkpoint_order(id).is_some()).unwrap();
        let number = self.members.checkpoint_order(sealer).unwrap().number;
        self.members.complete_checkpoint(sealer, number, self.now, &mut self.facts);
    }

    fn completed(&self) -> Vec<u64> {
        self.members.checkpoints().iter().map(|checkpoint| checkpoint.number).collect()
    }
}

#[test]
fn every_server_writes_and_one_seals() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.start_a_checkpoint();
    assert_eq!(story.order("ps-0"), Some(CheckpointOrder { number: 1, steps: None, seal: None }));
    story.write_part("ps-0");
    assert_eq!(story.order("ps-0"), None);
    story.write_part("ps-1");
    let seal = story.order("ps-1").unwrap().seal.unwrap();
    assert_eq!((&*seal.ledger, seal.parts.len()), ("ledger", 2));
    assert_eq!(story.completed(), [0_u64; 0]);
    story.members.complete_checkpoint(&server("ps-1"), 1, story.now, &mut story.facts);
    assert_eq!(story.completed(), [1]);
    assert_eq!(story.order("ps-1"), None);
}

#[test]
fn no_transfer_starts_during_a_checkpoint() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.start_a_checkpoint();
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    assert_eq!(story.members.sync_orders(&server("ps-0")), []);
    story.write_part("ps-0");
    story.members.complete_checkpoint(&server("ps-0"), 1, story.now, &mut story.facts);
    assert_eq!(story.members.sync_orders(&server("ps-0")).len(), 6);
}

#[test]
fn it_waits_for_running_transfers() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    story.start_a_checkpoint();
    assert_eq!(story.order("ps-0"), None);
    story.run_orders();
    story.members.start_writing("ledger", None, story.now, &mut story.facts);
    assert!(story.order("ps-0").is_some() && story.order("ps-1").is_some());
}

#[test]
fn it_goes_on_as_long_as_every_server_makes_progress() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.start_a_checkpoint();
    for _ in 0..60 {
        story.advance(60);
        story.members.record_write_progress(&server("ps-0"), 1, story.now);
        story.members.record_write_progress(&server("ps-1"), 1, story.now);
    }
    assert!(story.members.is_checkpointing());
    story.members.record_write_progress(&server("ps-1"), 2, story.now);
    for _ in 0..2 {
        story.advance(60);
        story.members.record_write_progress(&server("ps-0"), 1, story.now);
    }
    assert!(!story.members.is_checkpointing(), "one server makes no progress");
    let cause = story.members.checkpoint_failure().unwrap();
    assert!(cause.message.starts_with("ps-1") && cause.message.ends_with("has written nothing for 120 s"), "{cause}");
}

#[test]
fn it_waits_for_transfers_as_long_as_they_make_progress() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    story.start_a_checkpoint();
    let orders = story.members.sync_orders(&server("ps-0"));
    for _ in 0..10 {
        story.advance(20);
        for order in &orders {
            story.members.record_sync_progress(&server("ps-0"), order.partition, order.sync_id, story.now);
        }
    }
    assert!(story.members.is_checkpointing());
    story.members.settings.sync_limit = Duration::from_secs(3600);
    story.advance(30);
    assert!(!story.members.is_checkpointing());
}

#[test]
fn a_lost_server_aborts_the_attempt_and_uses_up_its_number() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.start_a_checkpoint();
    story.write_part("ps-0");
    story.kill("ps-1");
    assert_eq!(story.order("ps-0"), None);
    assert_eq!(story.members.checkpoint_failure().map(|cause| cause.reason), Some(Reason::CheckpointFailed));
    story.connect("ps-1", 2);
    story.run_orders();
    story.complete_a_checkpoint();
    assert_eq!(story.completed(), [2]);
    assert_eq!(story.members.checkpoint_failure(), None);
}

#[test]
fn nothing_is_written_while_a_partition_has_no_primary() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.members.declare_model("model", &mut story.facts).unwrap();
    assert!(story.members.start_checkpoint(story.now, &mut story.facts));
    story.kill("ps-1");
    assert!(!story.members.is_quiesced(), "the checkpoint would have half of the partitions");
    story.members.start_writing("ledger", None, story.now, &mut story.facts);
    assert_eq!(story.order("ps-0"), None);
    story.connect("ps-1", 2);
    story.members.start_writing("ledger", None, story.now, &mut story.facts);
    assert!(story.order("ps-0").is_some() && story.order("ps-1").is_some());
}

#[test]
fn a_failed_checkpoint_changes_nothing() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.complete_a_checkpoint();
    story.start_a_checkpoint();
    let cause = Cause::new(Reason::CheckpointFailed, "no space left on device");
    story.members.fail_checkpoint(2, cause, story.now, &mut story.facts);
    assert_eq!(story.completed(), [1]);
    assert!(story.members.checkpoint_failure().unwrap().message.contains("no space"));
}

#[test]
fn a_new_job_resumes_from_the_checkpoint_directory() {
    let settings = Settings { partitions: 4, keep: Some(2), ..Settings::default() };
    let (mut members, facts, now) = (PsMembership::new(settings), &mut Vec::new(), Duration::from_secs(1));
    let desired = DesiredServers { expected: Some(1), ..DesiredServers::default() };
    members.set_desired(&desired, now, facts);
    members.connect_server(&server("ps-0"), "here", now, facts).unwrap();
    assert_eq!(members.map().epoch, MapEpoch(0), "the directory is not listed yet");
    let found = Checkpoint { number: 5, ledger: "there".into() };
    members.record_found_checkpoints(Some((found, "model")), 7, now, facts);
    assert!(members.map().partitions.iter().all(|replicas| replicas.generation.source == Source::Checkpoint(5)));
    assert_eq!(members.declare_model("another", facts).unwrap_err().reason, Reason::ModelDiffers);
    members.start_checkpoint(now, facts);
    members.start_writing("ledger", None, now, facts);
    assert_eq!(members.checkpoint_order(&server("ps-0")).unwrap().number, 8);
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_the_one_before() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.complete_a_checkpoint();
    story.complete_a_checkpoint();
    story.kill("ps-1");
    story.connect("ps-1", 2);
    let lost: Vec<Partition> =
        story.members.map().iter().filter(|(_, replicas)| replicas.generation.number == 2).map(|(id, _)| id).collect();
    let again = ServerId::new("ps-1", 2);
    story.members.discard_damaged_checkpoint(&again, 2, &lost, "a bit is flipped", story.now, &mut story.facts);
    assert_eq!(story.completed(), [1]);
    let replicas = lost.iter().map(|id| story.members.map().replicas(*id).unwrap());
    assert!(
        replicas
            .clone()
            .all(|replicas| replicas.generation == PartitionGeneration { number: 3, source: Source::Checkpoint(1) })
    );
    assert!(replicas.clone().all(|replicas| replicas.primary.is_some()));
}

/// The partitions that a server keeps in this generation.
fn kept_in_generation(story: &Story, id: &ServerId, number: u64) -> Vec<(Partition, u64)> {
    let is_kept = |(_, replicas): &(Partition, &PartitionReplicas)| {
        replicas.is_kept_by(id) && replicas.generation.number == number
    };
    story.members.map().iter().filter(is_kept).map(|(partition, _)| (partition, number)).collect()
}

#[test]
fn an_unreadable_checkpoint_is_read_by_another_server() {
    for mode in [Mode::Async, Mode::Sync] {
        let mut story = Story::start(1, mode, &["ps-0", "ps-1"]);
        story.complete_a_checkpoint();
        story.kill("ps-1");
        story.connect("ps-1", 2);
        let (again, other) = (ServerId::new("ps-1", 2), server("ps-0"));
        let lost = kept_in_generation(&story, &again, 2);
        assert_eq!(lost.len(), 6);
        story.members.reassign_unreadable(&again, 1, &lost, "input/output error", story.now, &mut story.facts);
        assert_eq!(story.completed(), [1], "the checkpoint is intact");
        assert_eq!(story.reasons().last(), Some(&Reason::CheckpointUnreadable));
        let expected = PartitionGeneration { number: 3, source: Source::Checkpoint(1) };
        let replicas = |story: &Story| -> Vec<PartitionReplicas> {
            lost.iter().map(|(id, _)| story.members.map().replicas(*id).unwrap().clone()).collect()
        };
        assert!(
            replicas(&story)
                .iter()
                .all(|replicas| replicas.primary == Some(other.clone()) && replicas.generation == expected)
        );
        story.run_orders();
        let settled = replicas(&story);
        story.members.reassign_unreadable(&again, 1, &lost, "input/output error", story.now, &mut story.facts);
        assert_eq!(replicas(&story), settled, "the report is about an earlier generation");
    }
}

#[test]
fn the_only_server_reads_an_unreadable_checkpoint_again() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.complete_a_checkpoint();
    story.kill("ps-0");
    story.connect("ps-0", 2);
    let again = ServerId::new("ps-0", 2);
    for number in 2..5 {
        let lost = kept_in_generation(&story, &again, number);
        assert_eq!(lost.len(), 12);
        story.members.reassign_unreadable(&again, 1, &lost, "it is not mounted", story.now, &mut story.facts);
        assert_eq!((story.completed(), story.members.count_without_primary()), (vec![1], 0));
    }
}

#[test]
fn a_backup_takes_over_when_the_primary_cannot_read_the_checkpoint() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    story.complete_a_checkpoint();
    story.kill("ps-0");
    story.kill("ps-1");
    story.connect("ps-0", 2);
    story.connect("ps-1", 2);
    let (one, other) = (ServerId::new("ps-0", 2), ServerId::new("ps-1", 2));
    let lost = kept_in_generation(&story, &one, 2);
    assert_eq!(lost.len(), 12);
    story.members.reassign_unreadable(&one, 1, &lost, "input/output error", story.now, &mut story.facts);
    let replicas = &story.members.map().partitions;
    assert!(replicas.iter().all(|replicas| replicas.primary == Some(other.clone()) && replicas.generation.number == 2));
    assert_eq!(story.completed(), [1]);
}

fn completed_fact(checkpoint: u64, oldest: u64) -> Fact {
    Fact::CheckpointCompleted { checkpoint, ledger: "ledger".into(), oldest }
}

#[test]
fn a_restarted_master_knows_no_more_checkpoints_than_are_kept() {
    let mut members = PsMembership::default();
    (1..=4).for_each(|number| members.replay(&completed_fact(number, 0)));
    let known = |keep: Option<usize>| -> Vec<u64> {
        let settings = Settings { keep, ..Settings::default() };
        let members = members.clone().resume(settings, 2, Duration::from_secs(1));
        members.checkpoints().iter().map(|checkpoint| checkpoint.number).collect()
    };
    assert_eq!(known(Some(2)), [3, 4], "the earlier master kept more");
    assert_eq!(known(Some(9)), [1, 2, 3, 4]);
    assert_eq!(known(Some(0)), [1, 2, 3, 4], "all are kept");
    assert_eq!(known(None), [1, 2, 3, 4]);
}

#[test]
fn a_deleted_checkpoint_does_not_return_with_the_next_master() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.members.settings.keep = Some(2);
    (1..=3).for_each(|_| story.complete_a_checkpoint());
    assert_eq!(story.completed(), [2, 3]);
    for number in [3, 2] {
        story.members.discard_damaged_checkpoint(
            &server("ps-0"),
            number,
            &[],
            "a bit is flipped",
            story.now,
            &mut story.facts,
        );
    }
    let mut next = PsMembership::default();
    story.facts.iter().for_each(|fact| next.replay(fact));
    let next = next.resume(story.members.settings.clone(), 2, story.now);
    assert_eq!((next.checkpoints(), story.members.checkpoints()), (&[][..], &[][..]));
}
