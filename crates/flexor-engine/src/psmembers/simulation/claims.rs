//! What must be true, whatever happens.

use super::*;

impl Simulation {
    /// Of what was decided at once.
    pub(super) fn check_facts(&self, facts: &[Fact]) {
        for fact in facts {
            let Fact::Rewound { checkpoint, .. } = fact else { continue };
            let source = checkpoint.map_or(Source::Initial, Source::Checkpoint);
            let seats = &self.members.map().seats;
            assert!(self.settings.mode == Mode::Sync && seats.iter().all(|seat| seat.origin.source == source));
        }
    }

    /// After each step.
    pub(super) fn check(&self) {
        assert_eq!(invariants::broken(&self.members), None);
        for server in self.servers.values() {
            for (partition, kept) in &server.kept {
                let once: BTreeSet<u64> = kept.applied.iter().copied().collect();
                assert_eq!(once.len(), kept.applied.len(), "something was applied twice to {partition}");
            }
        }
        let keep = self.settings.keep.unwrap_or(0);
        assert!(keep == 0 || self.members.checkpoints().len() <= keep, "more are known than are kept");
        let mut origins = self.members.map().seats.iter().map(|seat| seat.origin);
        let first = origins.next();
        let goes_together = self.settings.mode == Mode::Async || origins.all(|origin| Some(origin) == first);
        assert!(goes_together, "some went back and others did not: {:?}", self.members.map());
    }

    /// The faults end: everything comes to rest, and what was answered is there.
    pub(super) fn rest(&mut self) {
        // Of those who were only cut off the latest life is left.
        let lives: BTreeMap<Arc<str>, u64> = self.servers.keys().map(|id| (id.name.clone(), id.incarnation)).collect();
        self.servers.retain(|id, _| lives[&id.name] == id.incarnation);
        let cut_off = self.servers.iter().filter(|(_, server)| server.is_cut_off);
        let cut_off: Vec<ServerId> = cut_off.map(|(id, _)| id.clone()).collect();
        cut_off.iter().for_each(|id| self.come_back(id));
        if self.servers.is_empty() {
            self.start_another();
        }
        let here = self.servers.keys().filter(|id| !self.wanted.leaving.contains(&id.name)).count();
        self.wanted.expected = Some(here as u32);
        self.act(PsMembers::follow);
        let until = self.now + Duration::from_secs(20);
        for _ in 0..2000 {
            self.now += Duration::from_millis(100);
            self.act(|members, _, now, facts| members.tick(now, facts));
            self.look();
            self.sync();
            let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
            for id in ids {
                self.hear(&id);
                self.copy(&id);
                self.write(&id);
            }
            self.save();
            if self.members.is_settled() && self.members.saving.is_none() && self.now > until {
                break;
            }
        }
        assert!(self.members.is_settled(), "it never comes to rest: {:?}", self.members);
        self.check();
        self.check_spread();
        self.check_values();
        let released: Vec<&Arc<str>> = self.members.released().collect();
        let leaving: Vec<&Arc<str>> = self.wanted.leaving.iter().collect();
        if self.servers.keys().any(|id| !self.wanted.leaving.contains(&id.name)) {
            assert_eq!(released, leaving);
        }
    }

    fn check_spread(&self) {
        let map = self.members.map();
        let is_even = |of: &dyn Fn(&Seat) -> Option<ServerId>| {
            let mut has: BTreeMap<ServerId, usize> = self.members.lasting().into_iter().map(|id| (id, 0)).collect();
            map.seats.iter().filter_map(of).for_each(|server| *has.entry(server).or_default() += 1);
            has.values().max().unwrap() - has.values().min().unwrap() <= 1
        };
        assert!(is_even(&|seat| seat.owner.clone()), "{map:?}");
        let may_keep_two = self.settings.copies == 2 && self.members.usable().len() > 1;
        assert!(!may_keep_two || (self.members.is_redundant() && is_even(&|seat| seat.backup.clone())), "{map:?}");
    }

    fn check_values(&self) {
        for (partition, seat) in self.members.map().iter() {
            let owner = seat.owner.as_ref().expect("everything has an owner");
            let kept = &self.servers[owner].kept[&partition];
            assert_eq!(kept.origin, seat.origin);
            for (origin, push) in self.answered.get(&partition).into_iter().flatten() {
                assert!(
                    *origin != seat.origin || kept.applied.contains(push),
                    "{partition} lost {push}, which was answered"
                );
            }
            if let Source::Checkpoint(number) = seat.origin.source {
                let began_with = &self.written[&number][&partition];
                assert!(kept.applied.starts_with(began_with), "{partition} did not begin with checkpoint {number}");
            }
            if self.settings.mode == Mode::Sync {
                let steps: Vec<u64> = (1..=self.journal.steps()).collect();
                assert!(kept.applied.starts_with(&steps), "{partition} is not where the data is");
                assert!(kept.applied.len() <= steps.len() + 1, "{partition} is further than the data");
            }
            if self.one_at_a_time {
                assert_eq!(seat.origin.number, 1, "{partition} began again though it was kept twice");
            }
            if let Some(backup) = &seat.backup {
                assert_eq!(self.servers[backup].kept[&partition].origin, seat.origin);
            }
        }
    }
}
