//! Claims that hold in every history.

use super::*;

impl Simulation {
    /// Checks decisions that were made together.
    pub(super) fn check_facts(&self, facts: &[Fact]) {
        for fact in facts {
            let Fact::Rewound { checkpoint, .. } = fact else { continue };
            let source = checkpoint.map_or(Source::Initial, Source::Checkpoint);
            let partitions = &self.members.map().partitions;
            assert!(
                self.settings.mode == Mode::Sync
                    && partitions.iter().all(|replicas| replicas.generation.source == source)
            );
        }
    }

    /// Checks the state after each step.
    pub(super) fn check(&self) {
        assert_eq!(invariants::broken(&self.members), None);
        for server in self.servers.values() {
            for (partition, replica) in &server.replicas {
                let once: BTreeSet<u64> = replica.applied.iter().copied().collect();
                assert_eq!(once.len(), replica.applied.len(), "something was applied twice to {partition}");
            }
        }
        let keep = self.settings.keep.unwrap_or(0);
        assert!(keep == 0 || self.members.checkpoints().len() <= keep, "more checkpoints are known than replica");
        let mut generations = self.members.map().partitions.iter().map(|replicas| replicas.generation);
        let first = generations.next();
        let is_uniform = self.settings.mode == Mode::Async || generations.all(|generation| Some(generation) == first);
        assert!(is_uniform, "some partitions were rewound and others not: {:?}", self.members.map());
    }

    /// Ends the faults, waits until rebalancing is done, and checks that acknowledged pushes are there.
    pub(super) fn settle(&mut self) {
        // Of servers that were cut off, only the latest incarnation stays.
        let latest: BTreeMap<Arc<str>, u64> = self.servers.keys().map(|id| (id.name.clone(), id.incarnation)).collect();
        self.servers.retain(|id, _| latest[&id.name] == id.incarnation);
        let cut_off = self.servers.iter().filter(|(_, server)| server.is_cut_off);
        let cut_off: Vec<ServerId> = cut_off.map(|(id, _)| id.clone()).collect();
        cut_off.iter().for_each(|id| self.reconnect(id));
        if self.servers.is_empty() {
            self.start_another();
        }
        let staying = self.servers.keys().filter(|id| !self.desired.leaving.contains(&id.name)).count();
        self.desired.expected = Some(staying as u32);
        self.act(PsMembership::set_desired);
        let until = self.now + Duration::from_secs(20);
        for _ in 0..2000 {
            self.now += Duration::from_millis(100);
            self.act(|members, _, now, facts| members.tick(now, facts));
            self.list_checkpoints();
            self.publish();
            let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
            for id in ids {
                self.apply_plan(&id);
                self.sync_partition(&id);
                self.write_part(&id);
            }
            self.start_writing();
            if self.members.is_balanced() && self.members.checkpoint_attempt.is_none() && self.now > until {
                break;
            }
        }
        assert!(self.members.is_balanced(), "rebalancing never ends: {:?}", self.members);
        self.check();
        self.check_spread();
        self.check_values();
        let released: Vec<&Arc<str>> = self.members.released().collect();
        let leaving: Vec<&Arc<str>> = self.desired.leaving.iter().collect();
        if self.servers.keys().any(|id| !self.desired.leaving.contains(&id.name)) {
            assert_eq!(released, leaving);
        }
    }

    fn check_spread(&self) {
        let map = self.members.map();
        let is_even = |of: &dyn Fn(&PartitionReplicas) -> Option<ServerId>| {
            let mut has: BTreeMap<ServerId, usize> =
                self.members.registered_servers().into_iter().map(|id| (id, 0)).collect();
            map.partitions.iter().filter_map(of).for_each(|server| *has.entry(server).or_default() += 1);
            has.values().max().unwrap() - has.values().min().unwrap() <= 1
        };
        assert!(is_even(&|replicas| replicas.primary.clone()), "{map:?}");
        let needs_backups = self.settings.replication_factor == 2 && self.members.connected_servers().len() > 1;
        assert!(
            !needs_backups || (self.members.is_fully_replicated() && is_even(&|replicas| replicas.backup.clone())),
            "{map:?}"
        );
    }

    fn check_values(&self) {
        for (partition, replicas) in self.members.map().iter() {
            let primary = replicas.primary.as_ref().expect("every partition has a primary");
            let replica = &self.servers[primary].replicas[&partition];
            assert_eq!(replica.generation, replicas.generation);
            for (generation, push) in self.acknowledged.get(&partition).into_iter().flatten() {
                assert!(
                    *generation != replicas.generation || replica.applied.contains(push),
                    "{partition} lost {push}, which was acknowledged"
                );
            }
            if let Source::Checkpoint(number) = replicas.generation.source {
                let started_with = &self.written[&number][&partition];
                assert!(
                    replica.applied.starts_with(started_with),
                    "{partition} did not start from checkpoint {number}"
                );
            }
            if self.settings.mode == Mode::Sync {
                let steps: Vec<u64> = (1..=self.journal.steps()).collect();
                assert!(replica.applied.starts_with(&steps), "{partition} is behind the data");
                assert!(replica.applied.len() <= steps.len() + 1, "{partition} is ahead of the data");
            }
            if self.one_at_a_time {
                assert_eq!(
                    replicas.generation.number, 1,
                    "{partition} has a new generation though it had two replicas"
                );
            }
            if let Some(backup) = &replicas.backup {
                assert_eq!(self.servers[backup].replicas[&partition].generation, replicas.generation);
            }
        }
    }
}
