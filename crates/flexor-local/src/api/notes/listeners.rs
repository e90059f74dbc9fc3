//! The processes that listen on a port of all addresses, from the kernel's tables of sockets.

use std::collections::BTreeMap;
use std::fs;

/// A process that listens on a port of all addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listening {
    /// The index of the family that it belongs to.
    pub owner: usize,
    pub port: u16,
    pub pid: i32,
}

/// The processes of some families that listen on ports of all addresses, one for each socket.
pub(super) fn on_all_addresses(families: &[Vec<i32>]) -> Vec<Listening> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let mut ports: BTreeMap<u64, u16> = tables.iter().flat_map(|table| listening(table)).collect();
    let mut found = Vec::new();
    for (owner, family) in families.iter().enumerate() {
        for pid in family {
            if ports.is_empty() {
                return found;
            }
            for inode in sockets(*pid) {
                // A socket that a process shares with its children is listed once.
                found.extend(ports.remove(&inode).map(|port| Listening { owner, port, pid: *pid }));
            }
        }
    }
    found.sort();
    found.dedup_by_key(|one| (one.owner, one.port));
    found
}

/// The ports of all addresses in a table of the kernel, with the inode of their sockets.
fn listening(table: &str) -> impl Iterator<Item = (u64, u16)> {
    const LISTENS: &str = "0A";
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        let is_listener = fields.get(3) == Some(&LISTENS) && address.bytes().all(|byte| byte == b'0');
        let inode = fields.get(9)?.parse().ok()?;
        is_listener.then(|| u16::from_str_radix(port, 16).ok().map(|port| (inode, port))).flatten()
    })
}

/// The inodes of a process's sockets.
fn sockets(pid: i32) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_listeners_on_all_addresses_are_found() {
        let (all, one) = (TcpListener::bind("0.0.0.0:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let six = TcpListener::bind("[::]:0");
        let (own, _) = crate::proc::own();
        let found = on_all_addresses(&[vec![], vec![own]]);
        let has = |port: u16| found.contains(&Listening { owner: 1, port, pid: own });
        assert!(has(all.local_addr().unwrap().port()) && !has(one.local_addr().unwrap().port()), "{found:?}");
        // A machine may be without IPv6.
        assert!(six.is_err() || has(six.unwrap().local_addr().unwrap().port()), "{found:?}");
    }
}
