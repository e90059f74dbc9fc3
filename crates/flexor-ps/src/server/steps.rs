//! Synchronous training: steps are taken when the master says so, on every partition that is kept here.
//!
//! What a step applies was pushed before and waits in the partition, of which a copy has the same; in which order it is
//! added the master says. So owner and copy take each step by themselves and are the same after it. The master names
//! the batches of the last step; a server that has missed some asks for them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;

use super::Server;
use super::post::Role;
use crate::batch::BatchId;
use crate::partition::{Divisors, Partition};
use crate::placement::PartitionId;

/// How many steps back the batches are remembered, for partitions that come late.
const REMEMBERED: u64 = 1024;
/// How long a pull waits for its step before the client is asked to come again.
const WAIT: Duration = Duration::from_secs(1);

/// Instead of the number of a map, while some partitions have begun again and others have not.
const GOING_BACK: u64 = u64::MAX;

/// What is known of the steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The map by which all servers last went back: steps of before are not those of after.
    rewound: u64,
    taken: u64,
    batches: BTreeMap<u64, Arc<[BatchId]>>,
    /// What the master was asked for last.
    asked: Option<u64>,
}

impl Server {
    /// All servers went back by this map, if they have not before. Nothing of any history is read or taken until every
    /// partition has begun again.
    pub(super) fn begin_steps_again(&self, rewound: u64) {
        let mut steps = self.0.steps.lock();
        if steps.rewound != rewound {
            *steps = Steps { rewound, ..Steps::default() };
            self.0.rewound.store(GOING_BACK, Ordering::Release);
            self.0.reached.store(0, Ordering::Release);
        }
    }

    /// Every partition is what the map by which all servers last went back says.
    pub(super) fn has_begun_again(&self, rewound: u64) {
        self.0.rewound.store(rewound, Ordering::Release);
    }

    /// Takes over which steps are taken.
    pub fn follow_steps(&self, told: &master::StepsTaken) {
        {
            let mut steps = self.0.steps.lock();
            if told.rewound != steps.rewound {
                return;
            }
            steps.taken = steps.taken.max(told.taken);
            steps.asked = None;
            for step in &told.steps {
                let of = |batch: &master::StepBatch| BatchId {
                    dataset: step.dataset,
                    epoch: step.epoch,
                    first: batch.first,
                    len: batch.records,
                };
                steps.batches.insert(step.step, step.batches.iter().map(of).collect());
            }
        }
        self.take_steps();
    }

    /// Brings all partitions to the last step that was taken.
    pub(super) fn take_steps(&self) {
        let Some(hosted) = self.0.hosted.get() else { return };
        let mut steps = self.0.steps.lock();
        if steps.taken == 0 {
            return;
        }
        let (mut lowest, mut are_all_here) = (steps.taken, true);
        for id in PartitionId::all() {
            let post = self.0.posts.lock(id);
            are_all_here &= !post.is_beginning;
            if post.role == Role::Away || post.is_beginning {
                continue;
            }
            if let Ok(version) = hosted.with(id, |partition| steps.bring(partition)) {
                lowest = lowest.min(version);
            }
        }
        let missing = (lowest < steps.taken).then_some(lowest);
        if let Some(first) = missing
            && std::mem::replace(&mut steps.asked, missing) != missing
        {
            self.report(master::from_server::Message::NeedSteps(master::NeedSteps { first }));
        }
        let forgotten = lowest.saturating_sub(REMEMBERED);
        steps.batches = steps.batches.split_off(&forgotten);
        // What is still being read from a checkpoint is at no step yet.
        self.0.reached.store(if are_all_here { lowest } else { 0 }, Ordering::Release);
        drop(steps);
        self.0.changed.notify_waiters();
    }

    /// Waits until every partition here is at a step since all servers went back by a map, of which this one may not have
    /// heard yet; but not for long, and not when it is void. A partition that has come since may be behind: who reads it
    /// looks.
    pub(super) async fn when_taken(&self, step: wire::AtStep) -> Result<(), wire::not_yet::Why> {
        let is_decided = || match self.rewound() {
            Some(known) if known == step.rewound => self.0.reached.load(Ordering::Acquire) >= step.steps,
            Some(known) => known > step.rewound,
            None => false,
        };
        if !is_decided() {
            // Whether in time or not is seen below.
            let _ = tokio::time::timeout(WAIT, self.until(is_decided)).await;
        }
        self.has_not_gone_back(step)?;
        match self.0.reached.load(Ordering::Acquire) >= step.steps {
            true => Ok(()),
            false => Err(wire::not_yet::Why::StepNotTaken(true)),
        }
    }

    /// Whether all servers went back by the map that a step is of, and by no later one.
    pub(super) fn has_not_gone_back(&self, step: wire::AtStep) -> Result<(), wire::not_yet::Why> {
        match self.rewound() {
            Some(known) if known == step.rewound => Ok(()),
            known => Err(wire::not_yet::Why::Rewound(known.unwrap_or(0))),
        }
    }

    /// The map by which all servers last went back, as far as this one has heard; nothing while it goes back.
    pub(super) fn rewound(&self) -> Option<u64> {
        Some(self.0.rewound.load(Ordering::Acquire)).filter(|rewound| *rewound != GOING_BACK)
    }
}

impl Steps {
    /// Takes all steps with a partition whose batches are known; gives the step that it is at then.
    fn bring(&self, partition: &mut Partition) -> u64 {
        while partition.version() < self.taken {
            let step = partition.version();
            let Some(batches) = self.batches.get(&step) else { break };
            let divisors = Divisors::average(u32::try_from(batches.len()).unwrap_or(u32::MAX));
            if let Err(turned) = partition.commit(step, batches, divisors, 0.0) {
                tracing::error!(step, %turned, "a step cannot be taken");
                break;
            }
        }
        partition.version()
    }
}
