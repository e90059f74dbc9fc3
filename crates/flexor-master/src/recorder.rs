//! Writes what the store decides into the journal, and tells the rest of the master about it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use flexor_engine::rendezvous::Fact;
use flexor_model::Reason;
use flexor_store::rendezvous_store::{Lsn as StoreLsn, Recorded, Recorder, StoreFact};
use serde::Serialize;
use tokio::sync::watch;

use crate::clock::{Clock, UnixMicros};
use crate::journal::{Journal, JournalError, Lsn};
use crate::records;

/// How many decisions `/api/events` remembers.
const REMEMBERED: usize = 1000;

/// A decision, for people.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Decisions are counted, also across clocks that are set back.
    pub number: u64,
    /// When, in microseconds since the Unix epoch.
    pub at: u64,
    /// The run that it is about.
    pub run: String,
    /// The node that it is about, if it is about one.
    pub node: Option<String>,
    /// Its name, without which life of it.
    #[serde(skip)]
    pub node_name: Option<Arc<str>>,
    /// What happened.
    pub what: What,
    /// Why, as a stable word.
    pub reason: Option<Reason>,
    /// Why, in a sentence.
    pub detail: String,
    /// Of a round: what made the nodes meet again.
    pub cause: Option<Reason>,
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// A node waits for the next round.
    Joined,
    /// A node waits for a place.
    Spared,
    /// A node left its place.
    Left,
    /// The program of a node has done its work.
    Finished,
    /// A node was lost.
    Lost,
    /// A node went after the end.
    Ended,
    /// A round is complete.
    RoundComplete,
    /// A run takes nobody any more.
    Closed,
    /// A run takes nodes again.
    Reopened,
    /// How many nodes are expected has changed.
    Expected,
}

/// The decisions of a master that people may ask about, and counts of all of them.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The latest, oldest first.
    pub latest: VecDeque<Decision>,
    /// How many there were.
    pub count: u64,
    /// How many rounds completed.
    pub rounds: u64,
    /// How many nodes were lost, by reason.
    pub lost: std::collections::BTreeMap<Reason, u64>,
}

/// Shared between the recorder and whoever shows decisions.
pub type SharedDecisions = Arc<Mutex<Decisions>>;

/// The recorder of a master.
pub struct JournalRecorder {
    journal: Arc<Journal>,
    clock: Clock,
    decisions: SharedDecisions,
    marks: Marks,
    refused: watch::Sender<Option<JournalError>>,
    decided: watch::Sender<u64>,
}

/// Which changes of keys stand in which records, for those records that may not be durable yet.
#[derive(Debug, Clone, Default)]
pub struct Marks(Arc<Mutex<VecDeque<Mark>>>);

#[derive(Debug, Clone, Copy)]
struct Mark {
    lsn: Lsn,
    /// The last change of a key in the record or before it.
    seq: u64,
}

impl Marks {
    /// The last change of a key that is durable when the journal is up to `lsn`, if that is news.
    pub fn durable_up_to(&self, lsn: Lsn) -> Option<u64> {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let durable = marks.iter().take_while(|mark| mark.lsn <= lsn).count();
        marks.drain(..durable).next_back().map(|mark| mark.seq)
    }

    /// The last record that holds a change of a key and may not be durable yet.
    pub fn last(&self) -> Option<Lsn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).back().map(|mark| mark.lsn)
    }

    fn add(&self, lsn: Lsn, seq: u64) {
        if seq > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(Mark { lsn, seq });
        }
    }
}

impl JournalRecorder {
    /// A recorder, with what it has written and is not durable yet.
    pub fn new(journal: Arc<Journal>, clock: Clock, decisions: SharedDecisions) -> (Self, Marks) {
        let marks = Marks::default();
        let (refused, decided) = (watch::Sender::new(None), watch::Sender::new(0));
        (Self { journal, clock, decisions, marks: marks.clone(), refused, decided }, marks)
    }

    /// How many decisions there were, as it changes.
    pub fn decided(&self) -> watch::Receiver<u64> {
        self.decided.subscribe()
    }

    /// Where it is told that the journal has refused a fact: then the master has to end.
    pub fn refused(&self) -> watch::Sender<Option<JournalError>> {
        self.refused.clone()
    }
}

impl Recorder for JournalRecorder {
    fn record(&mut self, facts: &[StoreFact]) -> Recorded {
        let count = remember(&self.decisions, facts, self.clock.wall());
        self.decided.send_if_modified(|last| std::mem::replace(last, count) != count);
        if !self.journal.is_durable() {
            return Recorded { lsn: 0, kept: true };
        }
        let appended = self.journal.append(&records::encode(facts));
        let lsn = match appended {
            Ok(lsn) => lsn,
            Err(error) => {
                // Nothing is ever answered on the strength of these facts; the master ends and the next one goes on from
                // what was written.
                self.refused.send_if_modified(|refused| refused.replace(error).is_none());
                return Recorded { lsn: StoreLsn::MAX, kept: false };
            }
        };
        self.marks.add(lsn, last_seq(facts));
        let kept = self.journal.flush().is_ok();
        let must_be_durable = |fact: &StoreFact| {
            matches!(fact, StoreFact::Rendezvous { fact: Fact::Completed { .. } | Fact::Closed { .. }, .. })
        };
        if !kept || facts.iter().any(must_be_durable) {
            // Asking is enough to have it done; who waits for it is told by the task that follows the journal.
            drop(self.journal.durable(lsn));
        }
        Recorded { lsn: lsn.0, kept }
    }

    fn has_room(&self) -> bool {
        self.journal.has_room()
    }

    fn durable(&self) -> StoreLsn {
        if self.journal.is_durable() { self.journal.durable_lsn().0 } else { StoreLsn::MAX }
    }
}

fn last_seq(facts: &[StoreFact]) -> u64 {
    let seq = |fact: &StoreFact| match fact {
        StoreFact::Key(mutation) => mutation.seq,
        StoreFact::Rendezvous { .. } | StoreFact::Operation(_) => 0,
    };
    facts.iter().map(seq).max().unwrap_or(0)
}

/// Remembers what was decided together, so that nobody sees half of it. How many decisions there were so far.
fn remember(decisions: &SharedDecisions, facts: &[StoreFact], now: UnixMicros) -> u64 {
    let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    for fact in facts {
        if let StoreFact::Rendezvous { run, fact } = fact {
            match fact {
                Fact::Completed { .. } => decisions.rounds += 1,
                Fact::Dropped { because, .. } if because.reason == Reason::NodeEnded => {}
                Fact::Dropped { because, .. } => *decisions.lost.entry(because.reason).or_default() += 1,
                Fact::Joined { .. }
                | Fact::Standby { .. }
                | Fact::ProcessesChanged { .. }
                | Fact::Left { .. }
                | Fact::Finished { .. }
                | Fact::Closed { .. }
                | Fact::Reopened { .. }
                | Fact::Expected { .. } => {}
            }
            if decisions.latest.len() == REMEMBERED {
                decisions.latest.pop_front();
            }
            decisions.count += 1;
            let number = decisions.count;
            decisions.latest.push_back(decision(number, run, fact, now));
        }
    }
    decisions.count
}

fn decision(number: u64, run: &str, fact: &Fact, now: UnixMicros) -> Decision {
    let (what, node, because, more) = match fact {
        Fact::Joined { id, newcomer, .. } => {
            (What::Joined, Some(id), None, if *newcomer { "as a newcomer" } else { "again" }.to_owned())
        }
        Fact::ProcessesChanged { id, processes } => {
            (What::Joined, Some(id), None, format!("with {} processes instead", processes.count))
        }
        Fact::Standby { id, because, .. } => (What::Spared, Some(id), Some(because), String::new()),
        Fact::Left { id } => (What::Left, Some(id), None, String::new()),
        Fact::Finished { id } => (What::Finished, Some(id), None, String::new()),
        Fact::Dropped { id, because } if because.reason == Reason::NodeEnded => {
            (What::Ended, Some(id), Some(because), String::new())
        }
        Fact::Dropped { id, because } => (What::Lost, Some(id), Some(because), String::new()),
        Fact::Completed { round, members, because, cause, .. } => {
            let cause = cause.as_ref().map(|cause| format!("; it began with {cause}")).unwrap_or_default();
            (What::RoundComplete, None, Some(because), format!("; round {round} of {} nodes{cause}", members.len()))
        }
        Fact::Closed { because } => (What::Closed, None, Some(because), String::new()),
        Fact::Reopened { because } => (What::Reopened, None, Some(because), String::new()),
        Fact::Expected { nodes } => (What::Expected, None, None, format!("{nodes:?} nodes")),
    };
    let detail = because.map(|because| because.detail.clone()).unwrap_or_default();
    Decision {
        number,
        at: now.0,
        run: run.to_owned(),
        node: node.map(ToString::to_string),
        node_name: node.map(|node| Arc::clone(&node.name)),
        what,
        reason: because.map(|because| because.reason),
        detail: format!("{detail}{more}"),
        cause: if let Fact::Completed { cause, .. } = fact { cause.as_ref().map(|cause| cause.reason) } else { None },
    }
}
