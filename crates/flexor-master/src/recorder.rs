//! Writes what the store decides into the journal, and tells the rest of the master about it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use flexor_engine::rendezvous::Fact;
use flexor_model::Reason;
use flexor_store::aware::{Lsn as StoreLsn, Recorded, Recorder, StoreFact};
use serde::Serialize;

use crate::clock::{Clock, UnixMicros};
use crate::journal::{Journal, Lsn};
use crate::records;

/// How many decisions `/api/events` remembers.
const REMEMBERED: usize = 1000;

/// A decision, for people.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When, in microseconds since the Unix epoch.
    pub at: u64,
    /// The run that it is about.
    pub run: String,
    /// The node that it is about, if it is about one.
    pub node: Option<String>,
    /// What happened.
    pub what: &'static str,
    /// Why, as a stable word.
    pub reason: Option<Reason>,
    /// Why, in a sentence.
    pub detail: String,
}

/// The decisions of a master that people may ask about, and counts of all of them.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The latest, oldest first.
    pub latest: VecDeque<Decision>,
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
        (Self { journal, clock, decisions, marks: marks.clone() }, marks)
    }
}

impl Recorder for JournalRecorder {
    fn record(&mut self, facts: &[StoreFact]) -> Recorded {
        remember(&self.decisions, facts, self.clock.wall());
        if !self.journal.is_durable() {
            return Recorded { lsn: 0, kept: true };
        }
        let appended = self.journal.append(&records::encode(facts));
        let Ok(lsn) = appended else {
            // The journal has ended or holds all it can: nothing is ever answered on the strength of these facts.
            return Recorded { lsn: StoreLsn::MAX, kept: false };
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

fn remember(decisions: &SharedDecisions, facts: &[StoreFact], now: UnixMicros) {
    for fact in facts {
        if let StoreFact::Rendezvous { run, fact } = fact {
            let mut decisions = decisions.lock().unwrap_or_else(PoisonError::into_inner);
            match fact {
                Fact::Completed { .. } => decisions.rounds += 1,
                Fact::Dropped { because, .. } if because.reason == Reason::NodeEnded => {}
                Fact::Dropped { because, .. } => *decisions.lost.entry(because.reason).or_default() += 1,
                Fact::Joined { .. }
                | Fact::Spared { .. }
                | Fact::Left { .. }
                | Fact::Closed { .. }
                | Fact::Reopened { .. }
                | Fact::Expected { .. } => {}
            }
            if decisions.latest.len() == REMEMBERED {
                decisions.latest.pop_front();
            }
            decisions.latest.push_back(decision(run, fact, now));
        }
    }
}

fn decision(run: &str, fact: &Fact, now: UnixMicros) -> Decision {
    let (what, node, because, more) = match fact {
        Fact::Joined { id, newcomer } => {
            ("joined", Some(id), None, if *newcomer { "as a newcomer" } else { "again" }.to_owned())
        }
        Fact::Spared { id, because } => ("spared", Some(id), Some(because), String::new()),
        Fact::Left { id } => ("left", Some(id), None, String::new()),
        Fact::Dropped { id, because } if because.reason == Reason::NodeEnded => {
            ("ended", Some(id), Some(because), String::new())
        }
        Fact::Dropped { id, because } => ("lost", Some(id), Some(because), String::new()),
        Fact::Completed { round, members, because, cause, .. } => {
            let cause = cause.as_ref().map(|cause| format!("; it began with {cause}")).unwrap_or_default();
            ("roundComplete", None, Some(because), format!("; round {round} of {} nodes{cause}", members.len()))
        }
        Fact::Closed { because } => ("closed", None, Some(because), String::new()),
        Fact::Reopened { because } => ("reopened", None, Some(because), String::new()),
        Fact::Expected { nodes } => ("expected", None, None, format!("{nodes:?} nodes")),
    };
    let detail = because.map(|because| because.detail.clone()).unwrap_or_default();
    Decision {
        at: now.0,
        run: run.to_owned(),
        node: node.map(ToString::to_string),
        what,
        reason: because.map(|because| because.reason),
        detail: format!("{detail}{more}"),
    }
}
