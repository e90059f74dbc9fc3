//! An address of this machine for every pod: 127.x.y.z, each part from 100 to 254, so that their texts sort as they do.
//!
//! Addresses tell pods apart; they do not keep them apart. Whoever listens on all addresses is in everybody's way.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const LEAST: u32 = 100;
const MOST: u32 = 254;
const PARTS: u32 = MOST - LEAST + 1;

/// Which addresses are somebody's.
#[derive(Debug, Default)]
pub struct Addresses {
    used: BTreeSet<Ipv4Addr>,
    /// Where to look next: an address is not used again soon, so that nobody meets what its last owner left behind.
    next: u32,
}

impl Addresses {
    /// An address that nobody has; none when all are somebody's.
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

    /// Somebody has this one already.
    pub fn is_taken(&mut self, address: Ipv4Addr) {
        self.used.insert(address);
    }

    /// Nobody has it any more.
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
        let mut addresses = Addresses::default();
        let some: Vec<Ipv4Addr> = (0..40_000).filter_map(|_| addresses.take()).collect();
        assert_eq!(some.len(), 40_000);
        assert!(some.iter().all(Ipv4Addr::is_loopback));
        let texts: Vec<String> = some.iter().map(ToString::to_string).collect();
        assert!(texts.is_sorted() && some.is_sorted());
        addresses.free(some[3]);
        assert_ne!(addresses.take(), Some(some[3]), "not at once");
    }
}
