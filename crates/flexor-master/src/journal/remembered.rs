//! A journal whose disk is a piece of memory: for masters that are killed and started again in one process and in the
//! time of a simulation.
//!
//! It keeps what the journal promises, and nothing more: a fact is durable a moment after somebody waits for it, what is
//! not durable is gone with its master, and a master that another has taken over from writes nothing any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_model::Generation;
use tokio::sync::watch;

use super::{Health, JournalError, Lsn, Recovered};

/// What making something durable takes.
const SYNC: Duration = Duration::from_millis(1);

/// The disk: it outlives the masters that write there.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    generation: u64,
    facts: Vec<Vec<u8>>,
    /// How many of them a killed master leaves behind.
    durable: usize,
}

/// The part of it that one master writes.
#[derive(Debug)]
pub(super) struct Remembered {
    memory: Memory,
    generation: Generation,
    /// How many facts the masters before had left.
    before: usize,
    durable: Arc<watch::Sender<Lsn>>,
    health: watch::Sender<Health>,
}

impl Remembered {
    /// Takes the disk over, and reads it.
    pub(super) fn take_over(memory: &Memory) -> (Self, Recovered) {
        let (generation, facts) = {
            let mut kept = memory.lock();
            let durable = kept.durable;
            kept.facts.truncate(durable);
            kept.generation += 1;
            (Generation(kept.generation), kept.facts.clone())
        };
        let remembered = Self {
            memory: memory.clone(),
            generation,
            before: facts.len(),
            durable: Arc::new(watch::Sender::new(Lsn(0))),
            health: watch::Sender::new(Health::Writable),
        };
        (remembered, Recovered { generation, snapshot: None, facts, cut: None })
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn append(&self, fact: &[u8]) -> Result<Lsn, JournalError> {
        let mut kept = self.memory.lock();
        still_mine(&kept, self.generation)?;
        kept.facts.push(fact.to_vec());
        Ok(Lsn((kept.facts.len() - self.before) as u64))
    }

    pub(super) fn last(&self) -> Lsn {
        Lsn(self.memory.lock().facts.len().saturating_sub(self.before) as u64)
    }

    pub(super) fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let (memory, generation, before) = (self.memory.clone(), self.generation, self.before);
        let durable = Arc::clone(&self.durable);
        async move {
            if *durable.borrow() >= lsn {
                return Ok(());
            }
            tokio::time::sleep(SYNC).await;
            let mut kept = memory.lock();
            still_mine(&kept, generation)?;
            kept.durable = kept.durable.max(before + lsn.0 as usize);
            durable.send_if_modified(|known| lsn > *known && std::mem::replace(known, lsn) != lsn);
            Ok(())
        }
    }

    pub(super) fn durable_beyond(&self, lsn: Lsn) -> impl Future<Output = Result<Lsn, JournalError>> + Send + use<> {
        let mut durable = self.durable.subscribe();
        async move { durable.wait_for(|durable| *durable > lsn).await.map(|lsn| *lsn).map_err(|_| JournalError::Closed) }
    }

    pub(super) fn durable_lsn(&self) -> Lsn {
        *self.durable.borrow()
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn still_mine(kept: &Kept, generation: Generation) -> Result<(), JournalError> {
    if kept.generation == generation.0 {
        return Ok(());
    }
    Err(JournalError::Superseded { by: Generation(kept.generation) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_durable_is_gone_with_its_master() {
        let memory = Memory::default();
        let (first, recovered) = Remembered::take_over(&memory);
        assert_eq!((recovered.generation, recovered.facts.len()), (Generation(1), 0));
        let kept = first.append(b"kept").unwrap();
        first.append(b"lost").unwrap();
        first.durable(kept).await.unwrap();
        assert_eq!(first.durable_lsn(), kept);
        let (second, recovered) = Remembered::take_over(&memory);
        assert_eq!((recovered.generation, recovered.facts), (Generation(2), vec![b"kept".to_vec()]));
        assert!(matches!(first.append(b"late"), Err(JournalError::Superseded { by: Generation(2) })));
        assert!(first.durable(Lsn(2)).await.is_err());
        assert_eq!(second.append(b"next").unwrap(), Lsn(1));
    }
}
