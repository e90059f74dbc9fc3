//! Random histories over virtual time. Nodes crash, stop, wake, finish, are cut off, and send events twice or late. The
//! master restarts from its facts, and clocks leap. Each seed is one history and replays exactly.
//!
//! Every step checks the machine against [`invariants`] and against the agents' state: one world for each round, ranks are
//! a permutation, no dropped node is counted. After the last fault a round with enough nodes must complete; nodes that
//! have finished and are outside count.

use std::collections::BTreeMap;

use super::*;
use crate::dice::Dice;

/// How many processes a node starts.
fn processes_of(name: &str) -> u32 {
    u32::from(name.bytes().last().unwrap_or(0) % 4) + 1
}

/// The state of an agent, as the agent itself knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// Will join.
    Outside,
    /// Has sent its join.
    Waiting,
    /// Trains in a round.
    Training(Round),
    /// Has finished, and joins again if it is needed.
    Done,
    /// Stopped or cut off: sends and receives nothing.
    Frozen,
}

struct Simulation {
    dice: Dice,
    now: Duration,
    machine: Rendezvous,
    /// The snapshot that the facts of the journal follow, if there is one.
    snapshot: Option<String>,
    journal: Vec<Fact>,
    agents: BTreeMap<Arc<str>, Agent>,
    worlds: BTreeMap<Round, Vec<MemberId>>,
    created: u32,
    /// Events that arrive late, some of them for the second time.
    delayed: Vec<Event>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let min = 1 + u32::try_from(dice.roll(3)).unwrap();
        let max = min + u32::try_from(dice.roll(4)).unwrap();
        let mut settings = Settings::new(min, max).unwrap();
        settings.max_restarts = u32::MAX;
        let unit = 1 + u32::try_from(dice.roll(2)).unwrap();
        let settings = settings.clone().with_unit(unit).unwrap_or(settings);
        Self {
            dice,
            now: Duration::from_secs(1),
            machine: Rendezvous::new(settings),
            snapshot: None,
            journal: Vec::new(),
            agents: BTreeMap::new(),
            worlds: BTreeMap::new(),
            created: 0,
            delayed: Vec::new(),
        }
    }

    fn apply(&mut self, event: Event) {
        let facts = self.machine.handle(event, self.now);
        for fact in facts {
            if let Fact::Completed { round, members, .. } = &fact {
                let before = self.worlds.insert(*round, members.clone());
                assert_eq!(before, None, "two worlds for round {round}");
                for member in members {
                    assert_eq!(
                        self.machine.state_of(member),
                        Some(MemberState::InWorld),
                        "{member} has a rank but is not in the world"
                    );
                }
                let world = self.machine.world().expect("a round has completed");
                for (member, processes) in world.members.iter().zip(&world.processes) {
                    assert_eq!(processes.count, processes_of(&member.name), "{member} has another number of processes");
                }
            }
            self.journal.push(fact);
        }
        assert_eq!(invariants::broken(&self.machine), None);
    }

    /// An agent sends an event, which may be lost, duplicated or late.
    fn send_unreliably(&mut self, event: Event) {
        match self.dice.roll(20) {
            0 => {}
            1 => self.delayed.push(event),
            2 => {
                self.apply(event.clone());
                self.delayed.push(event);
            }
            _ => self.apply(event),
        }
    }

    /// Every agent that is not frozen acts as a real one: it sends heartbeats, reads, joins and restarts when asked to.
    fn agents_act(&mut self, reliable: bool) {
        let names: Vec<Arc<str>> = self.agents.keys().cloned().collect();
        for name in names {
            let id = MemberId::new(Arc::clone(&name), 0);
            let agent = self.agents[&name];
            if agent == Agent::Frozen {
                continue;
            }
            let heartbeat = Event::Heartbeat { id: id.clone() };
            if reliable {
                self.apply(heartbeat);
            } else {
                self.send_unreliably(heartbeat);
            }
            let state = self.machine.state_of(&id);
            let round = self.machine.world().map(|world| world.round);
            let next = match (agent, state) {
                (Agent::Training(mine), Some(MemberState::InWorld)) if Some(mine) == round => {
                    if self.machine.restart_cause().is_some() {
                        self.apply(Event::Leave { id: id.clone() });
                        Agent::Outside
                    } else if !reliable && self.dice.roll(40) == 0 {
                        self.send_unreliably(Event::Finish { id: id.clone() });
                        Agent::Done
                    } else {
                        agent
                    }
                }
                (Agent::Done, Some(MemberState::InWorld)) if self.machine.restart_cause().is_some() => Agent::Outside,
                (Agent::Done, Some(MemberState::InWorld)) => {
                    // It repeats this over a new session.
                    self.apply(Event::Finish { id: id.clone() });
                    Agent::Done
                }
                (Agent::Done, None) if self.machine.needs_more_nodes() => Agent::Outside,
                (Agent::Done, None) => Agent::Done,
                (Agent::Done, Some(MemberState::Joined | MemberState::Standby | MemberState::Away)) => {
                    let cause = Cause::new(Reason::LauncherGaveUp, "withdraws");
                    self.apply(Event::Lost { id: id.clone(), cause });
                    Agent::Done
                }
                (Agent::Waiting, Some(MemberState::InWorld)) => Agent::Training(round.expect("a world was completed")),
                (Agent::Waiting, Some(MemberState::Joined | MemberState::Standby)) => Agent::Waiting,
                (Agent::Waiting | Agent::Training(_) | Agent::Outside | Agent::Frozen, _) => Agent::Outside,
            };
            self.agents.insert(name, next);
            if next == Agent::Outside {
                let processes = Processes { count: processes_of(&id.name), survive: self.dice.roll(3) == 0 };
                let join = Event::Join { id: id.clone(), processes };
                if reliable {
                    self.apply(join);
                } else {
                    self.send_unreliably(join);
                }
                self.agents.insert(Arc::clone(&id.name), Agent::Waiting);
            }
        }
    }

    fn inject_fault(&mut self) {
        let some_agent = |simulation: &mut Self| {
            let count = simulation.agents.len() as u64;
            (count > 0).then(|| {
                let index = usize::try_from(simulation.dice.roll(count)).unwrap();
                simulation.agents.keys().nth(index).cloned().expect("index in range")
            })
        };
        match self.dice.roll(12) {
            0..=2 if self.agents.len() < 8 => {
                self.agents.insert(format!("n{}", self.created).into(), Agent::Outside);
                self.created += 1;
            }
            3 => {
                if let Some(name) = some_agent(self) {
                    self.agents.remove(&name);
                    let cause = Cause::new(Reason::ConnectionClosed, "killed");
                    self.apply(Event::Lost { id: MemberId::new(name, 0), cause });
                }
            }
            4 => {
                if let Some(name) = some_agent(self) {
                    self.agents.insert(name, Agent::Frozen);
                }
            }
            5 => {
                for agent in self.agents.values_mut().filter(|agent| **agent == Agent::Frozen) {
                    *agent = Agent::Training(Round(0));
                }
            }
            6 => self.restart_master(),
            7 => self.now += Duration::from_secs(self.dice.roll(100)),
            8 => {
                let nodes = Some(u32::try_from(self.dice.roll(6)).unwrap()).filter(|nodes| *nodes > 0);
                self.apply(Event::Expect { nodes });
            }
            9 => {
                if let Some(name) = some_agent(self) {
                    self.apply(Event::ConnectionLost { id: MemberId::new(name, 0), grace: Duration::from_secs(1) });
                }
            }
            10 => {
                let late = std::mem::take(&mut self.delayed);
                for event in late.into_iter().rev() {
                    self.apply(event);
                }
            }
            _ => {}
        }
    }

    /// Restarts the master: all facts, or a snapshot and the facts after it, must give the same machine.
    fn restart_master(&mut self) {
        let settings = self.machine.settings().clone();
        let mut machine = match &self.snapshot {
            Some(snapshot) => serde_json::from_str(snapshot).unwrap(),
            None => Rendezvous::new(settings.clone()),
        };
        for fact in &self.journal {
            let written = serde_json::to_string(fact).unwrap();
            machine.replay(&serde_json::from_str(&written).unwrap());
        }
        assert_eq!(machine.world(), self.machine.world());
        assert_eq!(machine.members().collect::<Vec<_>>(), self.machine.members().collect::<Vec<_>>());
        assert_eq!(machine.program_failures(), self.machine.program_failures());
        assert_eq!(machine.expected(), self.machine.expected());
        assert_eq!(machine.survivors, self.machine.survivors);
        if self.dice.roll(2) == 0 {
            self.snapshot = Some(serde_json::to_string(&machine).unwrap());
            self.journal.clear();
        }
        self.machine = machine.resume(settings, self.now);
        self.apply(Event::Tick);
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += Duration::from_millis(300);
            self.inject_fault();
            self.agents_act(false);
            self.apply(Event::Tick);
            if self.machine.closed().is_some() {
                // All agents have finished; they start again.
                self.apply(Event::Reopen);
                self.agents
                    .values_mut()
                    .filter(|agent| **agent == Agent::Done)
                    .for_each(|agent| *agent = Agent::Outside);
            }
        }
    }

    /// Without further faults, enough nodes must form a world of maximum size, and that world must stay.
    fn settle(&mut self) {
        self.delayed.clear();
        self.agents.retain(|_, agent| *agent != Agent::Frozen);
        if self.dice.roll(2) == 0 {
            self.apply(Event::Expect { nodes: None });
        }
        self.apply(Event::Reopen);
        let mut outcome = Err(String::new());
        let mut steady = 0;
        // Agents may still act on outdated state, so the outcome has to hold for several steps.
        for _ in 0..400 {
            self.now += Duration::from_millis(300);
            self.agents_act(true);
            self.apply(Event::Tick);
            outcome = self.check_settled();
            steady = if outcome.is_ok() { steady + 1 } else { 0 };
            if steady == 5 {
                break;
            }
        }
        assert_eq!(outcome, Ok(()), "{}", self.machine.status());
        // Without events the world must not change.
        let alive = u32::try_from(self.agents.len()).unwrap();
        let world = self.machine.world().cloned();
        for _ in 0..100 {
            self.now += Duration::from_millis(300);
            self.agents_act(true);
            self.apply(Event::Tick);
        }
        if self.machine.settings().world_of(alive).is_some() {
            assert_eq!(self.check_settled(), Ok(()));
            assert_eq!(
                self.machine.world().map(|world| world.round),
                world.map(|world| world.round),
                "a round without a cause"
            );
        }
    }

    fn check_settled(&self) -> Result<(), String> {
        if self.machine.closed().is_some_and(|cause| cause.reason == Reason::RunFinished) {
            return Ok(());
        }
        let alive = u32::try_from(self.agents.len()).unwrap();
        let limit = self.machine.expected().filter(|nodes| self.machine.settings().world_of(*nodes).is_some());
        let expected_size = alive.min(limit.unwrap_or(u32::MAX));
        if self.machine.settings().world_of(expected_size).is_none() {
            return Ok(());
        }
        let is_outside = |name: &Arc<str>| self.machine.state_of(&MemberId::new(Arc::clone(name), 0)).is_none();
        let withdrawn = self.agents.iter().filter(|(name, agent)| **agent == Agent::Done && is_outside(name)).count();
        let expected_size = (alive - u32::try_from(withdrawn).unwrap()).min(expected_size);
        let size =
            self.machine.settings().world_of(expected_size).ok_or("some nodes wait for nodes that have finished")?;
        let world = self.machine.world().ok_or("no world although enough nodes are alive")?;
        // A world that is larger than expected runs on until a member leaves it.
        if world.members.len() < size as usize {
            return Err(format!("{} of {size} nodes are in the world", world.members.len()));
        }
        if let Some(dead) = world.members.iter().find(|member| !self.agents.contains_key(&member.name)) {
            return Err(format!("{dead} is in the world but not alive"));
        }
        match self.machine.restart_cause() {
            Some(cause) => Err(format!("the world is to restart: {cause}")),
            None => Ok(()),
        }
    }
}

#[test]
fn thousands_of_histories_keep_the_invariants_and_end_in_a_world() {
    flexor_seeds::each(0..3000, |seed| {
        let mut simulation = Simulation::new(seed);
        simulation.run(120);
        simulation.settle();
    });
}
