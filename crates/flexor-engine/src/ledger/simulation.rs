//! Random histories of the ledger in virtual time. Workers die, hang, fail on bad batches and restart. The master
//! restarts from a prefix of its facts. Checkpoints are taken and restored. Each seed is one history and replays
//! exactly.
//!
//! Every step checks [`invariants`] and compares the ledger with what the workers did. When the faults end, every
//! record is accounted for or, if the program fails on it, quarantined.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;

/// A worker process and its memory.
#[derive(Debug, Clone)]
struct Process {
    id: WorkerId,
    client: ClientKind,
    holds: Vec<Lease>,
    /// Repeated until they are durable.
    unsafe_acks: Vec<Ack>,
    frozen: bool,
    /// The incarnation of the master that it has resumed with. LSNs of another one mean nothing to it.
    master: u32,
}

#[derive(Debug, Clone)]
struct Ack {
    grant: GrantId,
    batches: Batches,
    epoch: u32,
    /// The journal's length at the acknowledgement.
    length: usize,
}

struct Simulation {
    dice: Dice,
    now: Duration,
    ledger: Ledger,
    journal: Vec<Fact>,
    /// Facts before this index survive a crash.
    durable: usize,
    processes: BTreeMap<Arc<str>, Process>,
    incarnations: BTreeMap<Arc<str>, u64>,
    poison: BTreeSet<u64>,
    tokens: Vec<Position>,
    /// The incarnation of the master.
    master: u32,
    /// How often each batch was accounted for, by the answers; a restore resets it.
    accepted: BTreeMap<(u32, u64), u32>,
    /// Acknowledged by stateless clients: no crash may forget these.
    promised: BTreeSet<(u32, u64)>,
    round: Round,
    failed_rounds: BTreeSet<Round>,
    /// Lost nodes that the rendezvous has not noticed.
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
            ledger: Ledger::new(Settings::default()),
            journal: Vec::new(),
            durable: 0,
            processes: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            poison,
            tokens: Vec::new(),
            master: 0,
            accepted: BTreeMap::new(),
            promised: BTreeSet::new(),
            round: Round(0),
            failed_rounds: BTreeSet::new(),
            unnoticed: BTreeSet::new(),
        };
        simulation.ledger.register(spec, &mut simulation.journal).unwrap();
        simulation.flush();
        simulation
    }

    fn flush(&mut self) {
        self.durable = self.journal.len();
        for process in self.processes.values_mut().filter(|process| process.master == self.master) {
            process.unsafe_acks.retain(|ack| ack.length > self.durable);
        }
        assert_eq!(invariants::broken(&self.ledger), None);
    }

    fn start(&mut self) {
        let node: Arc<str> = format!("n{}", self.dice.roll(4)).into();
        let name: Arc<str> = format!("{node}/0").into();
        if self.processes.contains_key(&name) {
            return;
        }
        self.unnoticed.remove(&node);
        let incarnation = self.incarnations.entry(Arc::clone(&name)).or_default();
        *incarnation += 1;
        let id = WorkerId::new(Arc::clone(&name), *incarnation);
        let client = if self.dice.roll(3) == 0 { ClientKind::Stateless } else { ClientKind::Resuming };
        let process =
            Process { id, client, holds: Vec::new(), unsafe_acks: Vec::new(), frozen: false, master: self.master };
        self.processes.insert(name, process);
    }

    /// One process leases or works.
    fn act(&mut self, name: &Arc<str>) {
        let Some(process) = self.processes.get(name).filter(|process| !process.frozen).cloned() else { return };
        if process.holds.is_empty() || (process.holds.len() < 3 && self.dice.roll(3) == 0) {
            self.lease(&process);
        } else {
            self.work(&process);
        }
    }

    fn lease(&mut self, process: &Process) {
        let batches = 1 + self.dice.roll(4);
        let request = LeaseRequest { dataset: "d".into(), batches, epoch: None, client: process.client };
        match self.ledger.lease(&process.id, &request, self.now, &mut self.journal) {
            Ok(LeaseOutcome::Lease(lease)) => {
                // A grant is durable before it is answered.
                self.flush();
                assert!(lease.batches.count >= 1 && lease.batches.count <= batches);
                // The answer may be lost. Then only a resume, or the end of the worker, frees the batches.
                if process.client == ClientKind::Stateless || self.dice.roll(20) > 0 {
                    self.processes.get_mut(&process.id.name).unwrap().holds.push(lease);
                } else {
                    self.resume_process(&process.id.name);
                }
            }
            Ok(LeaseOutcome::Wait(_) | LeaseOutcome::Finished) => {}
            Err(cause) => match cause.reason {
                Reason::WorkerInDoubt => self.resume_process(&process.id.name),
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
        let answer = self.ledger.acknowledge(&process.id, lease.grant, one, self.now, &mut self.journal);
        let length = self.journal.len();
        if process.client == ClientKind::Stateless {
            self.flush();
        }
        let now_holds = &mut self.processes.get_mut(&process.id.name).unwrap();
        match answer {
            Ok(records) => {
                if process.client == ClientKind::Resuming {
                    let ack = Ack { grant: lease.grant, batches: one, epoch: lease.epoch, length };
                    now_holds.unsafe_acks.push(ack);
                }
                now_holds.holds[0].batches = Batches::new(batch + 1, lease.batches.count - 1);
                now_holds.holds.retain(|lease| lease.batches.count > 0);
                if process.client == ClientKind::Stateless {
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

    /// The program fails in one process, and the other processes of its world end with it.
    fn fail(&mut self, name: &Arc<str>) {
        let mut all: Vec<Process> = std::mem::take(&mut self.processes).into_values().collect();
        all.sort_by_key(|process| process.id.name != *name);
        if self.dice.roll(2) == 0 {
            let endings = std::iter::once(WorkerEnd::Failed).chain(std::iter::repeat(WorkerEnd::Lost));
            for (process, end) in all.iter().zip(endings) {
                self.ledger.worker_ended(&process.id, end, self.now, &mut self.journal);
            }
        } else {
            // The launchers do not know which worker failed first. They repeat their reports to a master that forgot
            // them.
            for again in [self.dice.roll(4) == 0, false] {
                for process in &all {
                    self.ledger.worker_failed(&process.id, self.round, self.now, &mut self.journal);
                }
                if again {
                    self.crash();
                }
            }
            self.failed_rounds.insert(self.round);
            self.round = self.round.next();
            self.unnoticed.extend(all.iter().filter_map(|process| process.id.node()).map(Arc::from));
            self.observe_nodes();
        }
        // The launcher waits until its report is durable.
        self.flush();
        if self.dice.roll(2) == 0 && !self.tokens.is_empty() {
            self.restore();
        }
    }

    fn resume_process(&mut self, name: &Arc<str>) {
        let process = self.processes[name].clone();
        let holds: Vec<_> = process.holds.iter().map(|lease| (lease.grant, lease.batches)).collect();
        let acks: Vec<_> = process.unsafe_acks.iter().map(|ack| (ack.grant, ack.batches)).collect();
        let repeated: Vec<_> = process.unsafe_acks.iter().map(|ack| (ack.grant, ack.batches, ack.epoch)).collect();
        let void = self.ledger.resume_worker(&process.id, &holds, &acks, self.now, &mut self.journal).unwrap();
        let known = self.processes.get_mut(name).unwrap();
        known.master = self.master;
        known.holds.retain(|lease| !void.contains(&(lease.grant, lease.batches)));
        self.flush();
        self.recount_accepted();
        for (grant, batches, epoch) in repeated {
            let counts = self.accepted.contains_key(&(epoch, batches.first));
            assert!(counts, "{batches} of lease {grant}, acknowledged before, counts when it is repeated");
        }
    }

    fn kill(&mut self, name: &Arc<str>) {
        let Some(process) = self.processes.remove(name) else { return };
        match self.dice.roll(3) {
            0 => self.unnoticed.extend(process.id.node().map(Arc::from)),
            1 => self.ledger.worker_ended(&process.id, WorkerEnd::Lost, self.now, &mut self.journal),
            _ => self.observe_nodes(),
        }
    }

    /// The ledger observes the nodes.
    fn observe_nodes(&mut self) {
        let of_processes = self.processes.values().filter_map(|process| process.id.node()).map(Arc::from);
        let nodes = ObservedNodes {
            alive: of_processes.chain(self.unnoticed.iter().cloned()).collect(),
            round: Some(self.round),
            failed_rounds: self.failed_rounds.clone(),
            closed: false,
        };
        self.ledger.observe_nodes(&nodes, self.now, &mut self.journal);
    }

    /// The master crashes, loses some of the facts that are not durable, and restarts.
    fn crash(&mut self) {
        let unsure = self.journal.len() - self.durable;
        let kept = self.durable + usize::try_from(self.dice.roll(unsure as u64 + 1)).unwrap();
        self.journal.truncate(kept);
        let mut ledger = Ledger::new(Settings::default());
        for fact in &self.journal {
            let written = serde_json::to_string(fact).unwrap();
            ledger.replay(&serde_json::from_str(&written).unwrap());
        }
        if self.dice.roll(2) == 0 {
            ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        }
        self.ledger = ledger.resume(Settings::default(), self.now);
        self.durable = kept;
        self.master += 1;
        self.report_dead_workers(2);
        self.recount_accepted();
        let forgotten = self.promised.iter().find(|batch| !self.accepted.contains_key(batch));
        assert_eq!(forgotten, None, "answered acknowledgements are durable");
    }

    /// Reports dead workers as lost, one in `one_in` of them.
    fn report_dead_workers(&mut self, one_in: u64) {
        let known: Vec<WorkerId> = self.ledger.workers().collect();
        for worker in known {
            let alive = self.processes.get(&worker.name).is_some_and(|process| process.id == worker);
            if !alive && self.dice.roll(one_in) == 0 {
                self.ledger.worker_ended(&worker, WorkerEnd::Lost, self.now, &mut self.journal);
            }
        }
    }

    fn restore(&mut self) {
        let token = self.tokens[usize::try_from(self.dice.roll(self.tokens.len() as u64)).unwrap()].clone();
        // A token may be ahead of a journal that lost its end. The model has those records, so the token counts.
        self.ledger.restore(token, self.now, &mut self.journal).unwrap();
        for process in self.processes.values_mut() {
            process.holds.clear();
            process.unsafe_acks.clear();
        }
        self.promised.clear();
        self.flush();
        self.recount_accepted();
    }

    /// Recounts the accepted batches from the ledger's position.
    fn recount_accepted(&mut self) {
        self.accepted.clear();
        let position = self.ledger.position();
        let at = &position.datasets["d"];
        for epoch in 0..at.begun {
            let open = at.epochs.get(&epoch);
            for batch in 0..at.spec.batches() {
                let one = Batches::new(batch, 1);
                let is_open = open.is_some_and(|open| {
                    batch >= open.fresh || !open.open.within(one).is_empty() || !open.quarantined.within(one).is_empty()
                });
                let is_quarantined =
                    self.ledger.quarantined("d").iter().any(|(of, bad, _)| (*of, *bad) == (epoch, batch));
                if !is_open && !is_quarantined {
                    self.accepted.insert((epoch, batch), 1);
                }
            }
        }
    }

    fn inject_fault(&mut self) {
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
            8 => self.tokens.push(self.ledger.position()),
            9 if self.dice.roll(8) == 0 && !self.tokens.is_empty() => self.restore(),
            10 => self.now += Duration::from_secs(self.dice.roll(2000)),
            11 => self.observe_nodes(),
            _ => {}
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(900));
        self.ledger.tick(self.now, &mut self.journal);
        let names: Vec<_> = self.processes.keys().cloned().collect();
        for name in names {
            self.act(&name);
        }
        assert_eq!(invariants::broken(&self.ledger), None);
        let totals = self.ledger.totals("d").unwrap();
        assert_eq!(totals.expected, totals.accounted + totals.quarantined + totals.outstanding);
        let twice = self.accepted.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "a batch counts once");
    }

    fn run(mut self) {
        for _ in 0..250 {
            self.inject_fault();
            self.step();
        }
        for process in self.processes.values_mut() {
            process.frozen = false;
        }
        self.report_dead_workers(1);
        // From here on only bad batches disturb the workers.
        self.tokens.clear();
        for _ in 0..20_000 {
            if self.ledger.is_finished("d") {
                break;
            }
            if self.processes.is_empty() {
                self.start();
            }
            self.step();
        }
        assert!(self.ledger.is_finished("d"), "it ends: {:?}", self.ledger.totals("d"));
        let totals = self.ledger.totals("d").unwrap();
        assert_eq!(totals.outstanding, 0, "nothing is lost");
        assert_eq!(totals.accounted + totals.quarantined, totals.expected);
        let spec = self.ledger.dataset("d").unwrap().clone();
        let expected = u64::from(spec.epochs.unwrap()) * spec.records;
        assert_eq!(totals.expected, expected);
        for (_, batch, _) in self.ledger.quarantined("d") {
            assert!(self.poison.contains(&batch), "batch {batch} was quarantined and is good");
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
    flexor_seeds::each(0..3000, |seed| Simulation::new(seed).run());
}
