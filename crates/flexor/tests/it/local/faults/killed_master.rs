//! Tests kill -9 of the master at random moments, while agents join, leave, and use the store.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::agent::{AgentView, FakeAgent};
use super::deadline::eventually_or_explain;
use super::master::Master;
use super::process::Process;
use super::random::Random;
use super::worlds::Worlds;

const SIDECARS: u64 = 3;
const AGENTS: u64 = 6;
const WORLD: &str = "2:6";
const KILLS: usize = 8;

/// The state that the agents share.
#[derive(Default)]
struct SharedState {
    worlds: Worlds,
    /// The sum of all ADDs that were answered.
    added: AtomicI64,
    /// Agents only rejoin, and do nothing else.
    calm: AtomicBool,
    /// Agents end.
    done: AtomicBool,
    /// How many agents are in a world of all, since it is calm.
    together: AtomicI64,
}

/// The state of one agent across its incarnations.
struct TestAgent<'a> {
    shared: &'a SharedState,
    number: u64,
    address: SocketAddr,
    random: Random,
    incarnation: u64,
    /// The sum of its own ADDs.
    own: i64,
    agent: FakeAgent,
    shown: AgentView,
}

#[test]
fn a_master_killed_at_any_moment_costs_only_a_pause() {
    let random = Random::new();
    let folder = tempfile::tempdir().unwrap();
    let mut master = Master::on(folder.path(), WORLD);
    let sidecars: Vec<_> =
        (0..SIDECARS).map(|number| Process::sidecar(&format!("pod-{number}"), master.ports.grpc)).collect();
    let shared = SharedState::default();
    thread::scope(|scope| {
        for number in 0..AGENTS {
            let address = sidecars[usize::try_from(number % SIDECARS).unwrap()].address("listen");
            let (random, shared) = (random.fork(number), &shared);
            scope.spawn(move || TestAgent::new(shared, number, address, random).live());
        }
        // A panic here must also end the agents, or the scope waits for them for ever.
        let _end_agents = SetOnDrop(&shared.done);
        let mut random = random.fork(AGENTS);
        for _ in 0..KILLS {
            // Half of the time inside the two seconds in which a new master waits for its sidecars.
            let longest = if random.one_in(2) { 2_000 } else { 3_500 };
            thread::sleep(Duration::from_millis(random.below(longest)));
            master.end_with(Signal::SIGKILL);
            master = Master::at(master.ports, folder.path(), WORLD);
        }
        shared.calm.store(true, Ordering::Relaxed);
        let all = i64::try_from(AGENTS).unwrap();
        let are_together = || (shared.together.load(Ordering::Relaxed) == all).then_some(());
        eventually_or_explain("a world of all agents", are_together, || {
            let logs: Vec<String> = sidecars.iter().map(Process::log).collect();
            format!("{:#}\nthe master: {}\nits sidecars: {}", master.status(), master.log(), logs.join("\n"))
        });
    });
    let (added, rounds) = (shared.added.load(Ordering::Relaxed), shared.worlds.rounds());
    println!("{KILLS} kills, {rounds} rounds, {added} added");
    let mut reader = FakeAgent::connect(sidecars[0].address("listen"), "reader", 0).unwrap();
    assert_eq!(reader.store.add("/shared", 0).unwrap(), added, "each ADD counts once");
    assert_eq!(master.generation(), KILLS as u64 + 1);
}

impl<'a> TestAgent<'a> {
    fn new(shared: &'a SharedState, number: u64, address: SocketAddr, random: Random) -> Self {
        let agent = FakeAgent::connect(address, &format!("agent-{number}"), 1).unwrap();
        Self { shared, number, address, random, incarnation: 1, own: 0, agent, shown: AgentView::Outside }
    }

    /// Runs until `done`. A broken connection or a wrong answer panics.
    fn live(mut self) {
        let mut is_counted = false;
        while !self.shared.done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(2));
            if self.shared.calm.load(Ordering::Relaxed) {
                self.meet();
            } else {
                self.act();
            }
            let is_together = self.shared.calm.load(Ordering::Relaxed)
                && matches!(&self.shown, AgentView::World(world) if world.members.len() as u64 == AGENTS);
            if is_together != is_counted {
                self.shared.together.fetch_add(if is_together { 1 } else { -1 }, Ordering::Relaxed);
                is_counted = is_together;
            }
        }
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..60 => self.meet(),
            60..85 => self.add(),
            85..97 => self.write_and_read(),
            97..99 => self.shown = self.agent.join().unwrap(),
            _ => self.start_again(),
        }
    }

    fn meet(&mut self) {
        self.shown = match &self.shown {
            AgentView::RestartWanted | AgentView::Outside => self.agent.join().unwrap(),
            AgentView::World(_) | AgentView::Waiting | AgentView::Spare => self.agent.look().unwrap(),
            AgentView::Closed => panic!("the run is open"),
        };
        if let AgentView::World(world) = &self.shown {
            self.shared.worlds.note(world);
        }
    }

    fn add(&mut self) {
        let amount = i64::try_from(1 + self.random.below(9)).unwrap();
        self.agent.store.add("/shared", amount).unwrap();
        self.shared.added.fetch_add(amount, Ordering::Relaxed);
        self.own += amount;
        let own = self.agent.store.add(&format!("/own/{}", self.number), amount).unwrap();
        assert_eq!(own, self.own, "agent {}", self.number);
    }

    fn write_and_read(&mut self) {
        let (key, value) = (format!("/key/{}", self.number), self.random.below(u64::MAX).to_string());
        self.agent.store.set(&key, &value).unwrap();
        assert_eq!(self.agent.store.get(&key).unwrap(), value, "agent {}", self.number);
    }

    /// Kills the agent and starts its successor.
    fn start_again(&mut self) {
        self.incarnation += 1;
        self.agent = FakeAgent::connect(self.address, &format!("agent-{}", self.number), self.incarnation).unwrap();
        self.shown = AgentView::Outside;
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
