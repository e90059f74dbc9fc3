//! Random histories over virtual time: workers die, hang, fail of bad batches and come again, the master is started again
//! from a prefix of its facts, checkpoints are taken and restored. Each seed is one history and replays exactly.
//!
//! Every step holds the ledger against [`invariants`] and against what the workers did. When the faults end, every
//! record is accounted for or, if the program fails of it, quarantined; none is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;

/// A process, and what it remembers.
#[derive(Debug, Clone)]
struct Process {
    id: WorkerId,
    promise: Promise,
    holds: Vec<Lease>,
    /// Said again until they are durable.
    unsafe_acks: Vec<Ack>,
    frozen: bool,
    /// The life of the master that it knows: marks of another mean nothing to it before it has come back.
    master: u32,
}

#[derive(Debug, Clone)]
struct Ack {
    grant: GrantId,
    batches: Batches,
    epoch: u32,
    /// The length that the journal had then.
    length: usize,
}

struct Simulation {
    dice: Dice,
    now: Duration,
    shards: Shards,
    journal: Vec<Fact>,
    /// Facts before this one survive a crash.
    durable: usize,
    processes: BTreeMap<Arc<str>, Process>,
    lives: BTreeMap<Arc<str>, u64>,
    poison: BTreeSet<u64>,
    tokens: Vec<Position>,
    /// Which life of the master this is.
    master: u32,
    /// How often each batch is accounted for, as the answers say; a restore begins anew.
    accepted: BTreeMap<(u32, u64), u32>,
    /// Acknowledged to somebody who will not say it again: no crash may forget these.
    promised: BTreeSet<(u32, u64)>,
    round: Round,
    failed_rounds: BTreeSet<Round>,
    /// Nodes whose loss nobody has noticed.
    unnoticed: BTreeSet<Arc<str>>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let spec = DatasetSpec::new("d", dice.roll(400), 1 + dice.roll(9)).unwrap();
        let spec = spec.with_epochs(Some(1 + u32::try_from(dice.roll(3)).unwrap()));
        let batches = spec.batches();
        let poison = (0..dice.roll(3)).filter(|_| batches > 0).map(|_| dice.roll(batches.max(1))).collect();
        let mut simulation = Simulation {
            dice,
            now: Duration::from_secs(1),
            shards: Shards::new(Settings::default()),
            journal: Vec::new(),
            durable: 0,
            processes: BTreeMap::new(),
            lives: BTreeMap::new(),
            poison,
            tokens: Vec::new(),
            master: 0,
            accepted: BTreeMap::new(),
            promised: BTreeSet::new(),
            round: Round(0),
            failed_rounds: BTreeSet::new(),
            unnoticed: BTreeSet::new(),
        };
        simulation.shards.register(spec, &mut simulation.journal).unwrap();
        simulation.flush();
        simulation
    }

    fn flush(&mut self) {
        self.durable = self.journal.len();
        for process in self.processes.values_mut().filter(|process| process.master == self.master) {
            process.unsafe_acks.retain(|ack| ack.length > self.durable);
        }
        assert_eq!(invariants::broken(&self.shards), None);
    }

    fn start(&mut self) {
        let node: Arc<str> = format!("n{}", self.dice.roll(4)).into();
        let name: Arc<str> = format!("{node}/0").into();
        if self.processes.contains_key(&name) {
            return;
        }
        self.unnoticed.remove(&node);
        let life = self.lives.entry(Arc::clone(&name)).or_default();
        *life += 1;
        let id = WorkerId::new(Arc::clone(&name), *life);
        let promise = if self.dice.roll(3) == 0 { Promise::Forgets } else { Promise::Replays };
        let process =
            Process { id, promise, holds: Vec::new(), unsafe_acks: Vec::new(), frozen: false, master: self.master };
        self.processes.insert(name, process);
    }

    /// One process does something.
    fn act(&mut self, name: &Arc<str>) {
        let Some(process) = self.processes.get(name).filter(|process| !process.frozen).cloned() else { return };
        if process.holds.is_empty() || (process.holds.len() < 3 && self.dice.roll(3) == 0) {
            self.ask(&process);
        } else {
            self.work(&process);
        }
    }

    fn ask(&mut self, process: &Process) {
        let batches = 1 + self.dice.roll(4);
        let asked = Asked { dataset: "d".into(), batches, epoch: None, promise: process.promise };
        match self.shards.lease(&process.id, &asked, self.now, &mut self.journal) {
            Ok(Leased::Lease(lease)) => {
                // A grant is durable before it is answered.
                self.flush();
                assert!(lease.batches.count >= 1 && lease.batches.count <= batches);
                // The answer may be lost: then only the worker's coming back frees it, or its end.
                if process.promise == Promise::Forgets || self.dice.roll(20) > 0 {
                    self.processes.get_mut(&process.id.name).unwrap().holds.push(lease);
                } else {
                    self.come_back(&process.id.name);
                }
            }
            Ok(Leased::Wait(_) | Leased::Finished) => {}
            Err(cause) => match cause.reason {
                Reason::WorkerInDoubt => self.come_back(&process.id.name),
                other => panic!("{other}: {cause}"),
            },
        }
    }

    fn work(&mut self, process: &Process) {
        let lease = process.holds[0].clone();
        let batch = lease.batches.first;
        if self.poison.contains(&batch) {
            return self.fail(&process.id.name.clone());
        }
        let one = Batches::new(batch, 1);
        let answer = self.shards.acknowledge(&process.id, lease.grant, one, self.now, &mut self.journal);
        let length = self.journal.len();
        if process.promise == Promise::Forgets {
            self.flush();
        }
        let now_holds = &mut self.processes.get_mut(&process.id.name).unwrap();
        match answer {
            Ok(records) => {
                if process.promise == Promise::Replays {
                    let ack = Ack { grant: lease.grant, batches: one, epoch: lease.epoch, length };
                    now_holds.unsafe_acks.push(ack);
                }
                now_holds.holds[0].batches = Batches::new(batch + 1, lease.batches.count - 1);
                now_holds.holds.retain(|lease| lease.batches.count > 0);
                if process.promise == Promise::Forgets {
                    self.promised.insert((lease.epoch, batch));
                }
                if records > 0 {
                    *self.accepted.entry((lease.epoch, batch)).or_default() += 1;
                }
            }
            Err(cause) => {
                assert!(matches!(cause.reason, Reason::LeaseVoid | Reason::WorkerReplaced), "{cause}");
                now_holds.holds.remove(0);
            }
        }
    }

    /// The program fails in one process, and the others of its world end with it.
    fn fail(&mut self, name: &Arc<str>) {
        let mut all: Vec<Process> = std::mem::take(&mut self.processes).into_values().collect();
        all.sort_by_key(|process| process.id.name != *name);
        if self.dice.roll(2) == 0 {
            let endings = std::iter::once(Ending::Failed).chain(std::iter::repeat(Ending::Lost));
            for (process, ending) in all.iter().zip(endings) {
                self.shards.ended(&process.id, ending, self.now, &mut self.journal);
            }
        } else {
            // Their launchers cannot tell who began it. A master that forgot what they said is told again.
            for again in [self.dice.roll(4) == 0, false] {
                for process in &all {
                    self.shards.failed(&process.id, self.round, self.now, &mut self.journal);
                }
                if again {
                    self.crash();
                }
            }
            self.failed_rounds.insert(self.round);
            self.round = self.round.next();
            self.unnoticed.extend(all.iter().filter_map(|process| process.id.node()).map(Arc::from));
            self.follow();
        }
        // The launcher waits for that.
        self.flush();
        if self.dice.roll(2) == 0 && !self.tokens.is_empty() {
            self.restore();
        }
    }

    fn come_back(&mut self, name: &Arc<str>) {
        let process = self.processes[name].clone();
        let holds: Vec<_> = process.holds.iter().map(|lease| (lease.grant, lease.batches)).collect();
        let acks: Vec<_> = process.unsafe_acks.iter().map(|ack| (ack.grant, ack.batches)).collect();
        let said_again: Vec<_> = process.unsafe_acks.iter().map(|ack| (ack.grant, ack.batches, ack.epoch)).collect();
        let void = self.shards.come_back(&process.id, &holds, &acks, self.now, &mut self.journal).unwrap();
        let known = self.processes.get_mut(name).unwrap();
        known.master = self.master;
        known.holds.retain(|lease| !void.contains(&(lease.grant, lease.batches)));
        self.flush();
        self.count_again();
        for (grant, batches, epoch) in said_again {
            let counts = self.accepted.contains_key(&(epoch, batches.first));
            assert!(counts, "{batches} of lease {grant}, acknowledged before, counts when it is said again");
        }
    }

    fn kill(&mut self, name: &Arc<str>) {
        let Some(process) = self.processes.remove(name) else { return };
        match self.dice.roll(3) {
            0 => self.unnoticed.extend(process.id.node().map(Arc::from)),
            1 => self.shards.ended(&process.id, Ending::Lost, self.now, &mut self.journal),
            _ => self.follow(),
        }
    }

    /// The ledger hears how the nodes stand.
    fn follow(&mut self) {
        let of_processes = self.processes.values().filter_map(|process| process.id.node()).map(Arc::from);
        let nodes = Nodes {
            alive: of_processes.chain(self.unnoticed.iter().cloned()).collect(),
            round: Some(self.round),
            failed_rounds: self.failed_rounds.clone(),
            closed: false,
        };
        self.shards.follow(&nodes, self.now, &mut self.journal);
    }

    /// The master loses everything behind some fact that is not durable, and is started again.
    fn crash(&mut self) {
        let unsure = self.journal.len() - self.durable;
        let kept = self.durable + usize::try_from(self.dice.roll(unsure as u64 + 1)).unwrap();
        self.journal.truncate(kept);
        let mut shards = Shards::new(Settings::default());
        for fact in &self.journal {
            let written = serde_json::to_string(fact).unwrap();
            shards.replay(&serde_json::from_str(&written).unwrap());
        }
        if self.dice.roll(2) == 0 {
            shards = serde_json::from_str(&serde_json::to_string(&shards).unwrap()).unwrap();
        }
        self.shards = shards.resume(Settings::default(), self.now);
        self.durable = kept;
        self.master += 1;
        self.give_up_the_dead(2);
        self.count_again();
        let forgotten = self.promised.iter().find(|batch| !self.accepted.contains_key(batch));
        assert_eq!(forgotten, None, "what was answered is durable");
    }

    /// Somebody says that those are lost whose process is; of each `one_in`, one.
    fn give_up_the_dead(&mut self, one_in: u64) {
        let known: Vec<WorkerId> = self.shards.workers().collect();
        for worker in known {
            let alive = self.processes.get(&worker.name).is_some_and(|process| process.id == worker);
            if !alive && self.dice.roll(one_in) == 0 {
                self.shards.ended(&worker, Ending::Lost, self.now, &mut self.journal);
            }
        }
    }

    fn restore(&mut self) {
        let token = self.tokens[usize::try_from(self.dice.roll(self.tokens.len() as u64)).unwrap()].clone();
        // A token that is ahead of a journal that lost its end is the truth: the model has those records.
        self.shards.restore(token, self.now, &mut self.journal).unwrap();
        for process in self.processes.values_mut() {
            process.holds.clear();
            process.unsafe_acks.clear();
        }
        self.promised.clear();
        self.flush();
        self.count_again();
    }

    /// What was accepted is what the ledger says, when it was not this master that said so.
    fn count_again(&mut self) {
        self.accepted.clear();
        let position = self.shards.position();
        let at = &position.datasets["d"];
        for epoch in 0..at.begun {
            let open = at.epochs.get(&epoch);
            for batch in 0..at.spec.batches() {
                let one = Batches::new(batch, 1);
                let is_open = open.is_some_and(|open| {
                    batch >= open.fresh || !open.open.within(one).is_empty() || !open.quarantined.within(one).is_empty()
                });
                let taken_out = self.shards.quarantined("d").iter().any(|(of, bad, _)| (*of, *bad) == (epoch, batch));
                if !is_open && !taken_out {
                    self.accepted.insert((epoch, batch), 1);
                }
            }
        }
    }

    fn misfortune(&mut self) {
        let names: Vec<_> = self.processes.keys().cloned().collect();
        let pick = |dice: &mut Dice| {
            (!names.is_empty()).then(|| names[usize::try_from(dice.roll(names.len() as u64)).unwrap()].clone())
        };
        match self.dice.roll(40) {
            0..=3 => self.start(),
            4 => {
                if let Some(name) = pick(&mut self.dice) {
                    self.kill(&name);
                }
            }
            5 => {
                if let Some(name) = pick(&mut self.dice) {
                    self.processes.get_mut(&name).unwrap().frozen ^= true;
                }
            }
            6 => self.crash(),
            7 => self.flush(),
            8 => self.tokens.push(self.shards.position()),
            9 if self.dice.roll(8) == 0 && !self.tokens.is_empty() => self.restore(),
            10 => self.now += Duration::from_secs(self.dice.roll(2000)),
            11 => self.follow(),
            _ => {}
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(900));
        self.shards.tick(self.now, &mut self.journal);
        let names: Vec<_> = self.processes.keys().cloned().collect();
        for name in names {
            self.act(&name);
        }
        assert_eq!(invariants::broken(&self.shards), None);
        let totals = self.shards.totals("d").unwrap();
        assert_eq!(totals.expected, totals.accounted + totals.quarantined + totals.outstanding);
        let twice = self.accepted.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "a batch counts once");
    }

    fn run(mut self) {
        for _ in 0..250 {
            self.misfortune();
            self.step();
        }
        for process in self.processes.values_mut() {
            process.frozen = false;
        }
        self.give_up_the_dead(1);
        // From here on only the bad batches are in the way.
        self.tokens.clear();
        for _ in 0..20_000 {
            if self.shards.is_finished("d") {
                break;
            }
            if self.processes.is_empty() {
                self.start();
            }
            self.step();
        }
        assert!(self.shards.is_finished("d"), "it ends: {:?}", self.shards.totals("d"));
        let totals = self.shards.totals("d").unwrap();
        assert_eq!(totals.outstanding, 0, "nothing is lost");
        assert_eq!(totals.accounted + totals.quarantined, totals.expected);
        let spec = self.shards.dataset("d").unwrap().clone();
        let expected = u64::from(spec.epochs.unwrap()) * spec.records;
        assert_eq!(totals.expected, expected);
        for (_, batch, _) in self.shards.quarantined("d") {
            assert!(self.poison.contains(&batch), "batch {batch} was taken out and is good");
        }
        let bad =
            |epoch: u32, batch: u64| !self.accepted.contains_key(&(epoch, batch)) && !self.poison.contains(&batch);
        let epochs = spec.epochs.unwrap();
        let missed = (0..epochs).flat_map(|epoch| (0..spec.batches()).map(move |batch| (epoch, batch)));
        let missed: Vec<_> = missed.filter(|(epoch, batch)| bad(*epoch, *batch)).collect();
        assert_eq!(missed, [], "every good batch was acknowledged");
    }
}

#[test]
fn random_histories_lose_nothing_and_count_nothing_twice() {
    for seed in 0..3000 {
        let run = std::panic::catch_unwind(|| Simulation::new(seed).run());
        assert!(run.is_ok(), "seed {seed} failed; the message is above");
    }
}
