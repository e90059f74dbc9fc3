//! The rendezvous of all runs of one job.
//!
//! The master owns one [`Runs`]. Its front ends (the TCPStore adapter, the native API, the controller's feed) translate
//! what they receive into [`Event`]s and apply them here. The decided facts wait in [`Runs::take_facts`] until the owner
//! has written them to its journal; only then may it publish them. `Runs` knows no connections and no journal.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;
use thiserror::Error;

use super::{Event, Fact, MemberId, MemberState, Rendezvous, Settings};

/// The name of a run: torchrun's `--rdzv-id`, or the name of the job.
pub type RunId = Arc<str>;

/// How many runs one job serves. A job has one; a few more are a user's experiments, many more are a mistake.
const MAX_RUNS: usize = 64;

/// The job serves [`MAX_RUNS`] runs already.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{MAX_RUNS} runs are served already; is --rdzv-id different in every pod?")]
pub struct TooManyRuns;

/// The rendezvous of each run, with the facts that are not journaled yet.
#[derive(Debug)]
pub struct Runs {
    settings: Settings,
    runs: BTreeMap<RunId, Run>,
    /// The target number of nodes. It holds for every run, including those that are opened later.
    expected: Option<u32>,
    facts: Vec<(RunId, Fact)>,
    changes: u64,
}

#[derive(Debug)]
struct Run {
    machine: Rendezvous,
    /// The ranks of the last complete world: every node of a world reads its rank at the same time.
    ranks: HashMap<MemberId, u32>,
    /// The pod of each member whose pod is known.
    pods: BTreeMap<MemberId, Arc<str>>,
    /// Pods that exist and have no member yet.
    announced: BTreeSet<Arc<str>>,
    /// Whether a restart was wanted after the last event.
    restart_wanted: bool,
}

impl Runs {
    /// Creates an empty set of runs. Each run gets these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, runs: BTreeMap::new(), expected: None, facts: Vec::new(), changes: 0 }
    }

    /// The rendezvous of a run.
    pub fn get(&self, run: &str) -> Option<&Rendezvous> {
        self.runs.get(run).map(|run| &run.machine)
    }

    /// All runs by name.
    pub fn iter(&self) -> impl Iterator<Item = (&RunId, &Rendezvous)> {
        self.runs.iter().map(|(id, run)| (id, &run.machine))
    }

    /// The names of all runs.
    pub fn ids(&self) -> Vec<RunId> {
        self.runs.keys().cloned().collect()
    }

    /// The rank of a member that is in the world of a run.
    pub fn rank_of(&self, run: &str, id: &MemberId) -> Option<u32> {
        let run = self.runs.get(run)?;
        run.ranks.get(id).copied().filter(|_| run.machine.state_of(id) == Some(MemberState::InWorld))
    }

    /// Opens a run if it is missing. Returns whether it was missing.
    pub fn open(&mut self, run: &RunId) -> Result<bool, TooManyRuns> {
        if self.runs.contains_key(run) {
            return Ok(false);
        }
        if self.is_full() {
            return Err(TooManyRuns);
        }
        self.restore(run);
        if self.expected.is_some() {
            self.apply(run, Event::Expect { nodes: self.expected }, Duration::ZERO);
        }
        Ok(true)
    }

    /// Whether no other run can be opened.
    pub fn is_full(&self) -> bool {
        self.runs.len() >= MAX_RUNS
    }

    /// Applies an event to a run, and keeps the decided facts for the journal. An unknown run decides nothing.
    pub fn apply(&mut self, id: &RunId, event: Event, now: Duration) -> Vec<Fact> {
        let Some(run) = self.runs.get_mut(id) else { return Vec::new() };
        let facts = run.apply(event, now);
        let restart_wanted = run.machine.restart_cause().is_some();
        if facts.iter().any(is_change) || restart_wanted != run.restart_wanted {
            self.changes += 1;
        }
        run.restart_wanted = restart_wanted;
        self.facts.extend(facts.iter().map(|fact| (Arc::clone(id), fact.clone())));
        facts
    }

    /// Takes the facts that were decided since the last call, in order.
    pub fn take_facts(&mut self) -> Vec<(RunId, Fact)> {
        std::mem::take(&mut self.facts)
    }

    /// Counts the changes that nodes have to learn of: a world, the cause of a restart, a lost member, the end of a run.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Sets the target number of nodes of runs that are opened later. Known runs take it as an event.
    pub fn set_expected(&mut self, nodes: Option<u32>) {
        self.expected = nodes;
    }

    /// Notes which pod a member runs in.
    pub fn set_pod(&mut self, run: &str, id: MemberId, pod: Arc<str>) {
        if let Some(run) = self.runs.get_mut(run) {
            run.pods.insert(id, pod);
        }
    }

    /// The pod of a member, if it is known.
    pub fn pod_of(&self, run: &str, id: &MemberId) -> Option<&Arc<str>> {
        self.runs.get(run)?.pods.get(id)
    }

    /// The known pods of all members.
    pub fn pods(&self) -> BTreeSet<Arc<str>> {
        self.runs.values().flat_map(|run| run.pods.values().cloned()).collect()
    }

    /// All members with this name, on the host of this name, or in the pod of this name.
    pub fn members_named(&self, name: &str) -> Vec<(RunId, MemberId)> {
        let members = |(id, run): (&RunId, &Run)| {
            run.members_named(name).map(|member| (Arc::clone(id), member)).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(members).collect()
    }

    /// Sets which pods exist, including those of members. Returns how many of them have no member in the run.
    pub fn announce(&mut self, run: &str, pods: &BTreeSet<Arc<str>>) -> u32 {
        let Some(run) = self.runs.get_mut(run) else { return 0 };
        run.announced = pods.iter().filter(|pod| run.members_named(pod).next().is_none()).cloned().collect();
        run.missing()
    }

    /// Makes the numbers of all later rounds of a run greater than `round`.
    pub fn skip_rounds_through(&mut self, run: &str, round: Round) {
        if let Some(run) = self.runs.get_mut(run) {
            run.machine.skip_rounds_through(round);
        }
    }

    /// Makes a run known without deciding anything: it was known to an earlier master.
    pub fn restore(&mut self, run: &RunId) {
        if !self.runs.contains_key(run) {
            self.insert(Arc::clone(run), Rendezvous::new(self.settings.clone()));
        }
    }

    /// Takes the rendezvous of a run from a snapshot.
    pub fn insert(&mut self, run: RunId, machine: Rendezvous) {
        self.runs.insert(run, Run::new(machine));
    }

    /// Applies a fact that was read from a journal.
    pub fn replay(&mut self, run: &RunId, fact: &Fact) {
        self.restore(run);
        if let Some(run) = self.runs.get_mut(run) {
            run.machine.replay(fact);
        }
    }

    /// Starts all runs after a snapshot and facts were read. Every member has the reconnect grace to send a heartbeat.
    pub fn resume(&mut self, now: Duration) {
        self.expected = self.runs.values().find_map(|run| run.machine.expected());
        for run in self.runs.values_mut() {
            let machine = std::mem::replace(&mut run.machine, Rendezvous::new(self.settings.clone()));
            run.machine = machine.resume(self.settings.clone(), now);
            run.index_ranks();
        }
    }
}

impl Run {
    fn new(machine: Rendezvous) -> Self {
        Self {
            machine,
            ranks: HashMap::new(),
            pods: BTreeMap::new(),
            announced: BTreeSet::new(),
            restart_wanted: false,
        }
    }

    fn apply(&mut self, event: Event, now: Duration) -> Vec<Fact> {
        let mut facts = self.machine.handle(event, now);
        let has_joined = facts.iter().any(|fact| matches!(fact, Fact::Joined { .. } | Fact::Standby { .. }));
        if has_joined && self.forget_announced() {
            facts.extend(self.machine.handle(Event::Announced { missing: self.missing() }, now));
        }
        for fact in &facts {
            match fact {
                Fact::Completed { .. } => self.index_ranks(),
                Fact::Dropped { id, .. } => drop(self.pods.remove(id)),
                Fact::Joined { .. }
                | Fact::Standby { .. }
                | Fact::ProcessesChanged { .. }
                | Fact::Left { .. }
                | Fact::Finished { .. }
                | Fact::Closed { .. }
                | Fact::Reopened { .. }
                | Fact::Expected { .. } => {}
            }
        }
        facts
    }

    fn index_ranks(&mut self) {
        self.ranks = self.machine.world().iter().flat_map(|world| world.members.iter().cloned().zip(0..)).collect();
    }

    fn missing(&self) -> u32 {
        u32::try_from(self.announced.len()).unwrap_or(u32::MAX)
    }

    fn members_named(&self, name: &str) -> impl Iterator<Item = MemberId> {
        let is_pod = move |member: &MemberId| self.pods.get(member).is_some_and(|pod| &**pod == name);
        let members = self.machine.members().map(|(member, _)| member);
        members.filter(move |member| &*member.name == name || member.host() == name || is_pod(member))
    }

    /// Forgets announced pods that have a member. Returns whether there were any.
    fn forget_announced(&mut self) -> bool {
        if self.announced.is_empty() {
            return false;
        }
        let before = self.announced.len();
        for (member, _) in self.machine.members() {
            self.announced.remove(member.host());
            if let Some(pod) = self.pods.get(&member) {
                self.announced.remove(pod);
            }
        }
        self.announced.len() < before
    }
}

/// Whether nodes have to learn of a fact at once. A member that is dropped while it waits would otherwise wait for ever.
fn is_change(fact: &Fact) -> bool {
    match fact {
        Fact::Completed { .. } | Fact::Closed { .. } | Fact::Reopened { .. } | Fact::Dropped { .. } => true,
        Fact::Joined { .. }
        | Fact::Standby { .. }
        | Fact::ProcessesChanged { .. }
        | Fact::Left { .. }
        | Fact::Finished { .. }
        | Fact::Expected { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use flexor_model::Reason;

    #[test]
    fn a_torchrun_member_is_found_by_its_host_its_pod_and_its_name() {
        let run: RunId = "job".into();
        let mut runs = Runs::new(Settings::new(1, 2).expect("sizes"));
        runs.open(&run).expect("the first run");
        let member = MemberId::new("pod_a.jobs_77_3", 0);
        assert_eq!((member.host(), MemberId::new("plain", 4).host()), ("pod_a.jobs", "plain"));
        runs.set_pod(&run, member.clone(), "pod-a".into());
        runs.apply(
            &run,
            Event::Join { id: member.clone(), processes: super::super::Processes::default() },
            Duration::ZERO,
        );
        for name in ["pod_a.jobs_77_3", "pod_a.jobs", "pod-a"] {
            assert_eq!(runs.members_named(name), [(Arc::clone(&run), member.clone())], "{name}");
        }
        let cause = Cause::new(Reason::PodGone, "deleted");
        runs.apply(&run, Event::Lost { id: member, cause }, Duration::ZERO);
        assert_eq!((runs.members_named("pod-a"), runs.pods()), (Vec::new(), BTreeSet::new()));
        let facts: Vec<_> = runs.take_facts().into_iter().map(|(_, fact)| fact).collect();
        assert!(matches!(&facts[..], [Fact::Joined { .. }, Fact::Dropped { .. }]), "{facts:?}");
    }
}
