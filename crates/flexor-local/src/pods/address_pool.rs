//! The loopback addresses of pods: 127.x.y.z, each part from 100 to 254, so that texts sort as addresses do.
//!
//! Addresses tell pods apart; they do not isolate them. A program that listens on all addresses takes its port from all
//! pods.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const LEAST: u32 = 100;
const MOST: u32 = 254;
const PARTS: u32 = MOST - LEAST + 1;

/// Which addresses are in use.
#[derive(Debug, Default)]
pub struct AddressPool {
    used: BTreeSet<Ipv4Addr>,
    /// The next address to try. A freed address is not reused soon: connections to its last pod may linger.
    next: u32,
}

impl AddressPool {
    /// Takes a free address; none when all are in use.
    pub fn take(&mut self) -> Option<Ipv4Addr> {
        let all = PARTS * PARTS * PARTS;
        for _ in 0..all {
            let address = number(self.next % all);
            self.next = (self.next + 1) % all;
            if self.used.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Marks an address as in use.
    pub fn mark_taken(&mut self, address: Ipv4Addr) {
        self.used.insert(address);
    }

    pub fn free(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

fn number(at: u32) -> Ipv4Addr {
    let part = |value: u32| u8::try_from(LEAST + value % PARTS).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, part(at / PARTS / PARTS), part(at / PARTS), part(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_loopback_distinct_and_sort_as_texts() {
        let mut addresses = AddressPool::default();
        let some: Vec<Ipv4Addr> = (0..40_000).filter_map(|_| addresses.take()).collect();
        assert_eq!(some.len(), 40_000);
        assert!(some.iter().all(Ipv4Addr::is_loopback));
        let texts: Vec<String> = some.iter().map(ToString::to_string).collect();
        assert!(texts.is_sorted() && some.is_sorted());
        addresses.free(some[3]);
        assert_ne!(addresses.take(), Some(some[3]), "not at once");
    }
}
