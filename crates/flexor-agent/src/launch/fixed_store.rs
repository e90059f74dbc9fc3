//! The address at which the programs of this node expect the store of their world, where the command line names one.
//!
//! The store of a round has another port each time. The owner of the fixed address forwards connections to the current
//! one, which [`FixedStore::current`] names.

use std::net::SocketAddr;

use tokio::sync::watch;

/// A fixed address of the workers' store. It becomes `MASTER_ADDR` and `MASTER_PORT`.
#[derive(Debug, Clone)]
pub struct FixedStore {
    /// As the user wrote it: torch compares the text.
    pub host: String,
    pub port: u16,
    current: watch::Sender<Option<SocketAddr>>,
}

impl FixedStore {
    pub fn new(host: String, port: u16) -> Self {
        Self { host, port, current: watch::Sender::new(None) }
    }

    /// The store of the current round, if there is one.
    pub fn current(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.current.subscribe()
    }

    pub(super) fn publish(&self, address: SocketAddr) {
        self.current.send_replace(Some(address));
    }

    /// Withdraws the store of a round, unless that of the next one is published already.
    pub(super) fn withdraw(&self, address: SocketAddr) {
        self.current.send_if_modified(|current| current.take_if(|current| *current == address).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_an_old_round_withdraws_only_itself() {
        let fixed = FixedStore::new("localhost".to_owned(), 29500);
        let current = fixed.current();
        let [old, new] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        fixed.publish(old);
        fixed.publish(new);
        fixed.withdraw(old);
        assert_eq!(*current.borrow(), Some(new));
        fixed.withdraw(new);
        assert_eq!(*current.borrow(), None);
    }
}
