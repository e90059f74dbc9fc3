//! A simulated journal: facts and committed steps in one order, and a membership that is replayed from it.

use std::fmt;

use super::*;

#[derive(Debug, Clone)]
pub(super) enum Record {
    Servers(Fact),
    /// All batches of a step are acknowledged.
    Step,
    /// The data is rewound to this number of steps, in one record with the map.
    Rewound(u64),
}

#[derive(Default)]
pub(super) struct Journal {
    records: Vec<Record>,
    durable: usize,
    steps: u64,
    /// The serialised state, and the number of records that it contains.
    snapshot: Option<(String, usize)>,
    /// A membership to which every fact was replayed, and nothing else.
    replayed: PsMembership,
}

impl Journal {
    pub(super) fn write(&mut self, facts: Vec<Fact>, members: &PsMembership) {
        for fact in facts {
            self.replayed.replay(&fact);
            let rewound_to = if let Fact::Rewound { checkpoint, .. } = &fact {
                Some(checkpoint.map_or(0, |number| self.position(number)))
            } else if let (Fact::CheckpointCompleted { checkpoint, .. }, MapEpoch(0)) =
                (&fact, self.replayed.map().epoch)
            {
                // A new job resumes from its checkpoint directory.
                Some(self.position(*checkpoint))
            } else {
                None
            };
            self.records.push(Record::Servers(fact));
            self.records.extend(rewound_to.map(Record::Rewound));
            self.steps = rewound_to.unwrap_or(self.steps);
        }
        assert_eq!(durable(&self.replayed), durable(members), "a replay gives another state");
    }

    /// The position in the data at a checkpoint.
    fn position(&self, number: u64) -> u64 {
        let checkpoint = self.replayed.checkpoints().iter().find(|checkpoint| checkpoint.number == number);
        checkpoint.expect("the checkpoint of a rewind is known").ledger.parse().unwrap()
    }

    pub(super) fn commit_step(&mut self) {
        self.records.push(Record::Step);
        self.steps += 1;
    }

    /// Number of committed steps.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.records.len()
    }

    pub(super) fn sync(&mut self, members: &PsMembership, with_snapshot: bool) {
        self.durable = self.records.len();
        if with_snapshot {
            self.snapshot = Some((serde_json::to_string(members).unwrap(), self.durable));
        }
    }

    /// The durable state; later records are lost.
    pub(super) fn read(&mut self) -> PsMembership {
        self.records.truncate(self.durable);
        let (mut read, from) = match &self.snapshot {
            Some((text, from)) => (serde_json::from_str(text).unwrap(), *from),
            None => (PsMembership::default(), 0),
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

/// The journalled fields.
fn durable(members: &PsMembership) -> impl PartialEq + fmt::Debug + '_ {
    let PsMembership {
        settings: _,
        model,
        map,
        checkpoints,
        last_checkpoint_number,
        rewind_epoch,
        epoch_floor,
        restorations,
        lost,
        versions,
        registered: _,
        desired: _,
        transfers: _,
        retry_after: _,
        last_sync_id: _,
        checkpoint_attempt: _,
        checkpoint_failure: _,
        has_checkpoint_listing: _,
        orphaned_at: _,
        restart_grace_until: _,
        last_joined_at: _,
        clock: _,
    } = members;
    let epochs = (rewind_epoch, epoch_floor);
    (model, map, checkpoints, last_checkpoint_number, epochs, restorations, lost, versions)
}
