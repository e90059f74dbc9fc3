//! What is written down: the facts of the machine, and which steps are taken, in one order. And a machine beside it that
//! knows nothing else.

use std::fmt;

use super::*;

#[derive(Debug, Clone)]
pub(super) enum Record {
    Servers(Fact),
    /// All batches of a step are acknowledged.
    Step,
    /// The data goes back to where it stood after so many steps, in one record with the map that says so.
    Rewound(u64),
}

#[derive(Default)]
pub(super) struct Journal {
    records: Vec<Record>,
    durable: usize,
    steps: u64,
    /// What was written whole, and after how many records.
    snapshot: Option<(String, usize)>,
    /// A machine that was told of every fact, and of nothing else.
    replayed: PsMembers,
}

impl Journal {
    pub(super) fn write(&mut self, facts: Vec<Fact>, members: &PsMembers) {
        for fact in facts {
            self.replayed.replay(&fact);
            let rewound = if let Fact::Rewound { checkpoint, .. } = &fact {
                Some(checkpoint.map_or(0, |number| self.position(number)))
            } else if let (Fact::Saved { checkpoint, .. }, PsEpoch(0)) = (&fact, self.replayed.map().epoch) {
                // A job that goes on from what is in its folder.
                Some(self.position(*checkpoint))
            } else {
                None
            };
            self.records.push(Record::Servers(fact));
            self.records.extend(rewound.map(Record::Rewound));
            self.steps = rewound.unwrap_or(self.steps);
        }
        assert_eq!(durable(&self.replayed), durable(members), "the next master would know something else");
    }

    /// Where the data stood at a checkpoint.
    fn position(&self, number: u64) -> u64 {
        let checkpoint = self.replayed.checkpoints().iter().find(|checkpoint| checkpoint.number == number);
        checkpoint.expect("where the data goes back to is known").ledger.parse().unwrap()
    }

    pub(super) fn take_step(&mut self) {
        self.records.push(Record::Step);
        self.steps += 1;
    }

    /// How many steps are taken.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.records.len()
    }

    pub(super) fn sync(&mut self, members: &PsMembers, whole: bool) {
        self.durable = self.records.len();
        if whole {
            self.snapshot = Some((serde_json::to_string(members).unwrap(), self.durable));
        }
    }

    /// The machine as it was durable; the rest is lost.
    pub(super) fn read(&mut self) -> PsMembers {
        self.records.truncate(self.durable);
        let (mut read, from) = match &self.snapshot {
            Some((text, from)) => (serde_json::from_str(text).unwrap(), *from),
            None => (PsMembers::default(), 0),
        };
        for record in &self.records[from..] {
            if let Record::Servers(fact) = record {
                read.replay(fact);
            }
        }
        self.replayed = read.clone();
        self.steps = self.records.iter().fold(0, |steps, record| match record {
            Record::Servers(_) => steps,
            Record::Step => steps + 1,
            Record::Rewound(to) => *to,
        });
        read
    }
}

/// What the journal brings back.
fn durable(members: &PsMembers) -> impl PartialEq + fmt::Debug + '_ {
    let PsMembers {
        settings: _,
        model,
        map,
        checkpoints,
        last_save,
        rewound,
        restorations,
        lost,
        kept_answers,
        present: _,
        wanted: _,
        moves: _,
        resting: _,
        last_move: _,
        saving: _,
        unsaved: _,
        has_looked: _,
        versions: _,
        orphaned_at: _,
        all_known_at: _,
        came_at: _,
        clock: _,
    } = members;
    (model, map, checkpoints, last_save, rewound, restorations, lost, kept_answers)
}
