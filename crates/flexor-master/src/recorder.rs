//! Journals the store's facts, and keeps the latest decisions for `/api/events`.

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

/// How many decisions `/api/events` shows.
const REMEMBERED: usize = 1000;

/// A decision of the rendezvous, as people see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Counts up, even when the wall clock is set back.
    pub number: u64,
    /// Microseconds since the Unix epoch.
    pub at: u64,
    /// The run of the decision.
    pub run: String,
    /// The node of the decision, if it concerns one.
    pub node: Option<String>,
    /// The node's name without its incarnation.
    #[serde(skip)]
    pub node_name: Option<Arc<str>>,
    pub what: DecisionKind,
    pub reason: Option<Reason>,
    pub detail: String,
    /// For a complete round: what started it.
    pub trigger: Option<Reason>,
}

/// The kinds of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionKind {
    /// A node waits for the next round.
    Joined,
    /// A node waits as a standby.
    Spared,
    /// A node left its round.
    Left,
    /// The program of a node succeeded.
    Finished,
    /// A node was lost.
    Lost,
    /// A node ended after the run was closed.
    Ended,
    /// A round is complete.
    RoundComplete,
    /// A run accepts no nodes any more.
    Closed,
    /// A run accepts nodes again.
    Reopened,
    /// The number of expected nodes has changed.
    Expected,
}

/// The latest decisions of a master, and counts of all of them.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Oldest first.
    pub latest: VecDeque<Decision>,
    /// Decisions in all.
    pub count: u64,
    /// Completed rounds.
    pub rounds: u64,
    /// Lost nodes, by reason.
    pub lost: std::collections::BTreeMap<Reason, u64>,
}

/// Shared by the recorder and the APIs.
pub type SharedDecisions = Arc<Mutex<Decisions>>;

pub struct JournalRecorder {
    journal: Arc<Journal>,
    clock: Clock,
    decisions: SharedDecisions,
    marks: Marks,
    refused: watch::Sender<Option<JournalError>>,
    decided: watch::Sender<u64>,
}

/// Maps journal records to key changes, for records that may not be durable yet.
#[derive(Debug, Clone, Default)]
pub struct Marks(Arc<Mutex<VecDeque<RecordMark>>>);

#[derive(Debug, Clone, Copy)]
struct RecordMark {
    lsn: Lsn,
    /// The last key change in this record or before it.
    seq: u64,
}

impl Marks {
    /// The last key change that is durable with the journal at `lsn`, if it is newer than the last answer.
    pub fn durable_up_to(&self, lsn: Lsn) -> Option<u64> {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let durable = marks.iter().take_while(|mark| mark.lsn <= lsn).count();
        marks.drain(..durable).next_back().map(|mark| mark.seq)
    }

    /// The last record with a key change that may not be durable yet.
    pub fn last(&self) -> Option<Lsn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).back().map(|mark| mark.lsn)
    }

    fn add(&self, lsn: Lsn, seq: u64) {
        if seq > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(RecordMark { lsn, seq });
        }
    }
}

impl JournalRecorder {
    /// A recorder, and the marks of its records that are not durable yet.
    pub fn new(journal: Arc<Journal>, clock: Clock, decisions: SharedDecisions) -> (Self, Marks) {
        let marks = Marks::default();
        let (refused, decided) = (watch::Sender::new(None), watch::Sender::new(0));
        (Self { journal, clock, decisions, marks: marks.clone(), refused, decided }, marks)
    }

    /// The count of decisions, as it changes.
    pub fn decided(&self) -> watch::Receiver<u64> {
        self.decided.subscribe()
    }

    /// Carries the error after the journal has refused a fact. The master must end then.
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
                // No client is ever answered based on these facts. The master ends, and its successor starts from the
                // journal.
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
            // The call starts the commit. The task that watches the journal informs the waiters.
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

/// Stores all decisions of one record at once, so no reader sees half of them. Returns the count of decisions so far.
fn remember(decisions: &SharedDecisions, facts: &[StoreFact], now: UnixMicros) -> u64 {
    let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
    for fact in facts {
        if let StoreFact::Rendezvous { run, fact } = fact {
            match fact {
                Fact::Completed { .. } => decisions.rounds += 1,
                Fact::Dropped { cause, .. } if cause.reason == Reason::NodeEnded => {}
                Fact::Dropped { cause, .. } => *decisions.lost.entry(cause.reason).or_default() += 1,
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
    let (what, node, cause, more) = match fact {
        Fact::Joined { id, newcomer, .. } => {
            (DecisionKind::Joined, Some(id), None, if *newcomer { "as a newcomer" } else { "again" }.to_owned())
        }
        Fact::ProcessesChanged { id, processes } => {
            (DecisionKind::Joined, Some(id), None, format!("with {} processes instead", processes.count))
        }
        Fact::Standby { id, cause, .. } => (DecisionKind::Spared, Some(id), Some(cause), String::new()),
        Fact::Left { id } => (DecisionKind::Left, Some(id), None, String::new()),
        Fact::Finished { id } => (DecisionKind::Finished, Some(id), None, String::new()),
        Fact::Dropped { id, cause } if cause.reason == Reason::NodeEnded => {
            (DecisionKind::Ended, Some(id), Some(cause), String::new())
        }
        Fact::Dropped { id, cause } => (DecisionKind::Lost, Some(id), Some(cause), String::new()),
        Fact::Completed { round, members, cause, trigger, .. } => {
            let trigger = trigger.as_ref().map(|trigger| format!("; it began with {trigger}")).unwrap_or_default();
            (
                DecisionKind::RoundComplete,
                None,
                Some(cause),
                format!("; round {round} of {} nodes{trigger}", members.len()),
            )
        }
        Fact::Closed { cause } => (DecisionKind::Closed, None, Some(cause), String::new()),
        Fact::Reopened { cause } => (DecisionKind::Reopened, None, Some(cause), String::new()),
        Fact::Expected { nodes } => (DecisionKind::Expected, None, None, format!("{nodes:?} nodes")),
    };
    let detail = cause.map(|cause| cause.message.clone()).unwrap_or_default();
    Decision {
        number,
        at: now.0,
        run: run.to_owned(),
        node: node.map(ToString::to_string),
        node_name: node.map(|node| Arc::clone(&node.name)),
        what,
        reason: cause.map(|cause| cause.reason),
        detail: format!("{detail}{more}"),
        trigger: if let Fact::Completed { trigger, .. } = fact {
            trigger.as_ref().map(|trigger| trigger.reason)
        } else {
            None
        },
    }
}
