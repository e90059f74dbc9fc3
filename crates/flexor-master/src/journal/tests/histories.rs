//! Random histories of masters: kills, full disks, compactions and takeovers in any order.
//!
//! Every answered fact reaches the next master, and the next master reads a prefix of the decided facts.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Append,
    Flush,
    Wait,
    Compact,
    WritesFail(bool),
    FsyncsFail(bool),
    /// The process is killed and another one follows.
    Kill,
    /// Another master takes over while this one runs.
    TakeOver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Append),
        3 => Just(Step::Flush),
        3 => Just(Step::Wait),
        2 => Just(Step::Compact),
        1 => any::<bool>().prop_map(Step::WritesFail),
        1 => any::<bool>().prop_map(Step::FsyncsFail),
        1 => Just(Step::Kill),
        1 => Just(Step::TakeOver),
    ]
}

/// A master, its decided facts, and how many of them were answered.
struct Master {
    journal: Journal,
    decided: Vec<u32>,
    answered: usize,
}

impl Master {
    fn follows(machine: &Machine, last: Option<&Self>) -> Self {
        machine.writes_fail(None);
        machine.fsyncs_fail(None);
        let (journal, decided) = machine.take_over();
        if let Some(last) = last {
            assert!(last.decided.starts_with(&decided), "{decided:?} is no prefix of {:?}", last.decided);
            assert!(decided.len() >= last.answered, "{} found, {} answered", decided.len(), last.answered);
        }
        Self { journal, answered: decided.len(), decided }
    }

    fn step(&mut self, step: Step, machine: &Machine) {
        match step {
            Step::Append => {
                let number = self.decided.len() as u32 + 1000 * self.journal.generation().0 as u32;
                append(&self.journal, number);
                self.decided.push(number);
            }
            Step::Flush => {
                if self.journal.flush().is_ok() {
                    self.answered = self.decided.len();
                }
            }
            Step::Wait => {
                let faults = machine.faults.active();
                let waits_for_ever = faults.write_error.is_some() || faults.fsync_error.is_some();
                if !waits_for_ever && self.journal.health().borrow().is_writable() {
                    wait(self.journal.durable(self.journal.append(b"").unwrap())).unwrap();
                    self.answered = self.decided.len();
                }
            }
            Step::Compact => self.journal.compact(snapshot_of(&self.decided)).unwrap(),
            Step::WritesFail(fail) => machine.writes_fail(fail.then_some(DiskError::NoSpace)),
            Step::FsyncsFail(fail) => machine.fsyncs_fail(fail.then_some(DiskError::Device)),
            Step::Kill | Step::TakeOver => unreachable!("these replace the master"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn answered_facts_are_never_lost(steps in prop::collection::vec(step(), 1..60)) {
        let machine = Machine::new();
        let mut master = Master::follows(&machine, None);
        for step in steps {
            match step {
                Step::Kill => {
                    let Master { journal, decided, answered } = master;
                    journal.kill();
                    let last = Master { journal: Journal::in_memory(), decided, answered };
                    master = Master::follows(&machine, Some(&last));
                }
                Step::TakeOver => {
                    let newer = Master::follows(&machine, Some(&master));
                    // Refused when the older master has noticed the takeover.
                    let _ = master.journal.append(b"");
                    let refused = wait(master.journal.durable(Lsn(u64::MAX))).unwrap_err();
                    prop_assert!(refused.is_final());
                    master = newer;
                }
                _ => master.step(step, &machine),
            }
        }
        let Master { journal, decided, .. } = master;
        machine.writes_fail(None);
        machine.fsyncs_fail(None);
        drop(journal);
        prop_assert_eq!(numbers_of(&machine.recovered()), decided);
    }
}
