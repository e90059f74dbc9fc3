//! Random histories over virtual time: nodes crash, stop, wake, finish, are cut off, repeat themselves and speak late, the
//! master is started again from its facts, clocks leap. Each seed is one history and replays exactly.
//!
//! Every step holds the machine against [`invariants`] and against what the agents believe: no two worlds for one round,
//! ranks a permutation, no dropped node counted. When the faults end, a round with enough nodes must complete, those
//! included who have finished and are outside.

use std::collections::BTreeMap;

use super::*;
use crate::dice::Dice;

/// How many processes a node starts.
fn processes_of(name: &str) -> u32 {
    u32::from(name.bytes().last().unwrap_or(0) % 4) + 1
}

/// What an agent is doing, as far as it knows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// Wants to join.
    Outside,
    /// Has said that it joins.
    Waiting,
    /// Trains in a round.
    Training(Round),
    /// Has done its work, and is here if needed.
    Done,
    /// Stopped or cut off: says nothing, hears nothing.
    Frozen,
}

struct Simulation {
    dice: Dice,
    now: Duration,
    machine: Rendezvous,
    /// What the facts of the journal follow, where it does not begin with nothing.
    snapshot: Option<String>,
    journal: Vec<Fact>,
    agents: BTreeMap<Arc<str>, Agent>,
    worlds: BTreeMap<Round, Vec<MemberId>>,
    born: u32,
    /// Events that are still under way; some arrive late or twice.
    on_the_wire: Vec<Event>,
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
            born: 0,
            on_the_wire: Vec::new(),
        }
    }

    fn feed(&mut self, event: Event) {
        let facts = self.machine.handle(event, self.now);
        for fact in facts {
            if let Fact::Completed { round, members, .. } = &fact {
                let before = self.worlds.insert(*round, members.clone());
                assert_eq!(before, None, "two worlds for round {round}");
                for member in members {
                    assert_eq!(self.machine.place_of(member), Some(Place::World), "{member} is counted but not there");
                }
                let world = self.machine.world().expect("a round has completed");
                for (member, processes) in world.members.iter().zip(&world.processes) {
                    assert_eq!(processes.count, processes_of(&member.name), "{member} brought more or less");
                }
            }
            self.journal.push(fact);
        }
        assert_eq!(invariants::broken(&self.machine), None);
    }

    /// An agent speaks; the words may be lost, doubled or late.
    fn say(&mut self, event: Event) {
        match self.dice.roll(20) {
            0 => {}
            1 => self.on_the_wire.push(event),
            2 => {
                self.feed(event.clone());
                self.on_the_wire.push(event);
            }
            _ => self.feed(event),
        }
    }

    /// Every agent that is not frozen does what a real one does: beat, look, join, restart when asked to.
    fn agents_act(&mut self, reliable: bool) {
        let names: Vec<Arc<str>> = self.agents.keys().cloned().collect();
        for name in names {
            let id = MemberId::new(Arc::clone(&name), 0);
            let agent = self.agents[&name];
            if agent == Agent::Frozen {
                continue;
            }
            let heard = Event::Heard { id: id.clone() };
            if reliable {
                self.feed(heard);
            } else {
                self.say(heard);
            }
            let place = self.machine.place_of(&id);
            let round = self.machine.world().map(|world| world.round);
            let next = match (agent, place) {
                (Agent::Training(mine), Some(Place::World)) if Some(mine) == round => {
                    if self.machine.restart_wanted().is_some() {
                        self.feed(Event::Leave { id: id.clone() });
                        Agent::Outside
                    } else if !reliable && self.dice.roll(40) == 0 {
                        self.say(Event::Finish { id: id.clone() });
                        Agent::Done
                    } else {
                        agent
                    }
                }
                (Agent::Done, Some(Place::World)) if self.machine.restart_wanted().is_some() => Agent::Outside,
                (Agent::Done, Some(Place::World)) => {
                    // Over a new session.
                    self.feed(Event::Finish { id: id.clone() });
                    Agent::Done
                }
                (Agent::Done, None) if self.machine.is_too_small() => Agent::Outside,
                (Agent::Done, None) => Agent::Done,
                (Agent::Done, Some(Place::Joined | Place::Spare | Place::Away)) => {
                    let cause = Cause::new(Reason::LauncherGaveUp, "stands aside");
                    self.feed(Event::Gone { id: id.clone(), cause });
                    Agent::Done
                }
                (Agent::Waiting, Some(Place::World)) => Agent::Training(round.expect("a world was completed")),
                (Agent::Waiting, Some(Place::Joined | Place::Spare)) => Agent::Waiting,
                (Agent::Waiting | Agent::Training(_) | Agent::Outside | Agent::Frozen, _) => Agent::Outside,
            };
            self.agents.insert(name, next);
            if next == Agent::Outside {
                let processes = Processes { count: processes_of(&id.name), survive: self.dice.roll(3) == 0 };
                let join = Event::Join { id: id.clone(), processes };
                if reliable {
                    self.feed(join);
                } else {
                    self.say(join);
                }
                self.agents.insert(Arc::clone(&id.name), Agent::Waiting);
            }
        }
    }

    fn misfortune(&mut self) {
        let some_agent = |simulation: &mut Self| {
            let count = simulation.agents.len() as u64;
            (count > 0).then(|| {
                let index = usize::try_from(simulation.dice.roll(count)).unwrap();
                simulation.agents.keys().nth(index).cloned().expect("index in range")
            })
        };
        match self.dice.roll(12) {
            0..=2 if self.agents.len() < 8 => {
                self.agents.insert(format!("n{}", self.born).into(), Agent::Outside);
                self.born += 1;
            }
            3 => {
                if let Some(name) = some_agent(self) {
                    self.agents.remove(&name);
                    let cause = Cause::new(Reason::ConnectionClosed, "killed");
                    self.feed(Event::Gone { id: MemberId::new(name, 0), cause });
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
                self.feed(Event::Expect { nodes });
            }
            9 => {
                if let Some(name) = some_agent(self) {
                    self.feed(Event::ConnectionLost { id: MemberId::new(name, 0), grace: Duration::from_secs(1) });
                }
            }
            10 => {
                let late = std::mem::take(&mut self.on_the_wire);
                for event in late.into_iter().rev() {
                    self.feed(event);
                }
            }
            _ => {}
        }
    }

    /// The facts alone, or those that follow a snapshot, must give the same machine again.
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
        self.feed(Event::Tick);
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += Duration::from_millis(300);
            self.misfortune();
            self.agents_act(false);
            self.feed(Event::Tick);
            if self.machine.closed().is_some() {
                // Everybody has finished: once more.
                self.feed(Event::Reopen);
                self.agents
                    .values_mut()
                    .filter(|agent| **agent == Agent::Done)
                    .for_each(|agent| *agent = Agent::Outside);
            }
        }
    }

    /// No more faults: with enough nodes there must be a world of all that fit, and it must stand.
    fn settle(&mut self) {
        self.on_the_wire.clear();
        self.agents.retain(|_, agent| *agent != Agent::Frozen);
        if self.dice.roll(2) == 0 {
            self.feed(Event::Expect { nodes: None });
        }
        self.feed(Event::Reopen);
        let mut verdict = Err(String::new());
        let mut steady = 0;
        // Agents may still believe what has changed, so a moment in which all is well is not enough.
        for _ in 0..400 {
            self.now += Duration::from_millis(300);
            self.agents_act(true);
            self.feed(Event::Tick);
            verdict = self.settled();
            steady = if verdict.is_ok() { steady + 1 } else { 0 };
            if steady == 5 {
                break;
            }
        }
        assert_eq!(verdict, Ok(()), "{}", self.machine.standing());
        // And it stays: where nothing happens, nothing is done.
        let alive = u32::try_from(self.agents.len()).unwrap();
        let world = self.machine.world().cloned();
        for _ in 0..100 {
            self.now += Duration::from_millis(300);
            self.agents_act(true);
            self.feed(Event::Tick);
        }
        if self.machine.settings().world_of(alive).is_some() {
            assert_eq!(self.settled(), Ok(()));
            assert_eq!(
                self.machine.world().map(|world| world.round),
                world.map(|world| world.round),
                "a round for nothing"
            );
        }
    }

    fn settled(&self) -> Result<(), String> {
        if self.machine.closed().is_some_and(|cause| cause.reason == Reason::RunFinished) {
            return Ok(());
        }
        let alive = u32::try_from(self.agents.len()).unwrap();
        let limit = self.machine.expected().filter(|nodes| self.machine.settings().world_of(*nodes).is_some());
        let wanted = alive.min(limit.unwrap_or(u32::MAX));
        if self.machine.settings().world_of(wanted).is_none() {
            return Ok(());
        }
        let is_outside = |name: &Arc<str>| self.machine.place_of(&MemberId::new(Arc::clone(name), 0)).is_none();
        let rests = self.agents.iter().filter(|(name, agent)| **agent == Agent::Done && is_outside(name)).count();
        let wanted = (alive - u32::try_from(rests).unwrap()).min(wanted);
        let size = self.machine.settings().world_of(wanted).ok_or("some wait for others who have finished")?;
        let world = self.machine.world().ok_or("no world although enough nodes are here")?;
        // A world that has become greater than expected stands until somebody leaves it.
        if world.members.len() < size as usize {
            return Err(format!("{} of {size} nodes are in the world", world.members.len()));
        }
        if let Some(ghost) = world.members.iter().find(|member| !self.agents.contains_key(&member.name)) {
            return Err(format!("{ghost} is a ghost in the world"));
        }
        match self.machine.restart_wanted() {
            Some(cause) => Err(format!("the world does not stand: {cause}")),
            None => Ok(()),
        }
    }
}

#[test]
fn thousands_of_histories_keep_the_invariants_and_end_in_a_world() {
    for seed in 0..3000 {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            simulation.run(120);
            simulation.settle();
        });
        assert!(run.is_ok(), "seed {seed} failed; the message is above");
    }
}
