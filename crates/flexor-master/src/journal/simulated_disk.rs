//! A journal on a simulated disk in disk, for masters that restart within one process and in simulated time.
//!
//! It keeps exactly the journal's guarantees. A fact becomes durable a moment after a caller waits for it. Facts that
//! are not durable are lost with their master. A superseded master writes nothing any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_model::Generation;
use tokio::sync::watch;

use super::{Health, JournalError, Lsn, Recovered};

/// The duration of a sync.
const SYNC: Duration = Duration::from_millis(1);

/// The disk. It outlives the masters that write to it.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<DiskContent>>);

#[derive(Debug, Default)]
struct DiskContent {
    generation: u64,
    facts: Vec<Vec<u8>>,
    /// How many facts survive a killed master.
    durable: usize,
}

/// The journal of one master on the disk.
#[derive(Debug)]
pub(super) struct SimulatedJournal {
    disk: SimulatedDisk,
    generation: Generation,
    /// How many facts earlier masters had left.
    before: usize,
    durable: Arc<watch::Sender<Lsn>>,
    health: watch::Sender<Health>,
}

impl SimulatedJournal {
    /// Takes over the disk and reads it.
    pub(super) fn take_over(disk: &SimulatedDisk) -> (Self, Recovered) {
        let (generation, facts) = {
            let mut content = disk.lock();
            let durable = content.durable;
            content.facts.truncate(durable);
            content.generation += 1;
            (Generation(content.generation), content.facts.clone())
        };
        let journal = Self {
            disk: disk.clone(),
            generation,
            before: facts.len(),
            durable: Arc::new(watch::Sender::new(Lsn(0))),
            health: watch::Sender::new(Health::Writable),
        };
        (journal, Recovered { generation, snapshot: None, facts, cut: None })
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn append(&self, fact: &[u8]) -> Result<Lsn, JournalError> {
        let mut content = self.disk.lock();
        check_owner(&content, self.generation)?;
        content.facts.push(fact.to_vec());
        Ok(Lsn((content.facts.len() - self.before) as u64))
    }

    pub(super) fn last(&self) -> Lsn {
        Lsn(self.disk.lock().facts.len().saturating_sub(self.before) as u64)
    }

    pub(super) fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<(), JournalError>> + Send + use<> {
        let (disk, generation, before) = (self.disk.clone(), self.generation, self.before);
        let durable = Arc::clone(&self.durable);
        async move {
            if *durable.borrow() >= lsn {
                return Ok(());
            }
            tokio::time::sleep(SYNC).await;
            let mut content = disk.lock();
            check_owner(&content, generation)?;
            content.durable = content.durable.max(before + lsn.0 as usize);
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

impl SimulatedDisk {
    fn lock(&self) -> MutexGuard<'_, DiskContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_owner(content: &DiskContent, generation: Generation) -> Result<(), JournalError> {
    if content.generation == generation.0 {
        return Ok(());
    }
    Err(JournalError::Superseded { by: Generation(content.generation) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn facts_that_are_not_durable_are_lost_with_their_master() {
        let disk = SimulatedDisk::default();
        let (first, recovered) = SimulatedJournal::take_over(&disk);
        assert_eq!((recovered.generation, recovered.facts.len()), (Generation(1), 0));
        let content = first.append(b"content").unwrap();
        first.append(b"lost").unwrap();
        first.durable(content).await.unwrap();
        assert_eq!(first.durable_lsn(), content);
        let (second, recovered) = SimulatedJournal::take_over(&disk);
        assert_eq!((recovered.generation, recovered.facts), (Generation(2), vec![b"content".to_vec()]));
        assert!(matches!(first.append(b"late"), Err(JournalError::Superseded { by: Generation(2) })));
        assert!(first.durable(Lsn(2)).await.is_err());
        assert_eq!(second.append(b"next").unwrap(), Lsn(1));
    }
}
