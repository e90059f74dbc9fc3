//! A participant of a rendezvous: torchrun's `_NodeDesc`.

use std::fmt;
use std::sync::Arc;

/// One agent process. It is ordered like the Python dataclass, by address, process and counter; torchrun assigns ranks
/// in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeDesc {
    /// The host's full name, or the value of `--local-addr`.
    pub addr: Arc<str>,
    /// The agent's process id.
    pub pid: u64,
    /// Distinguishes the rendezvous handlers of one process.
    pub local_id: u64,
}

impl fmt::Display for NodeDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}", self.addr, self.pid, self.local_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(addr: &str, pid: u64, local_id: u64) -> NodeDesc {
        NodeDesc { addr: addr.into(), pid, local_id }
    }

    #[test]
    fn nodes_are_ordered_by_address_then_process_then_counter() {
        let ordered = [node("a", 9, 9), node("a-10", 1, 0), node("a-9", 1, 0), node("b", 1, 2), node("b", 2, 1)];
        assert!(ordered.is_sorted());
        // Beyond the basic plane Python compares code points, as UTF-8 does and UTF-16 does not.
        assert!(node("\u{ffff}", 0, 0) < node("\u{10000}", 0, 0));
    }

    #[test]
    fn a_node_is_shown_as_torchrun_shows_it() {
        assert_eq!(node("trainer-0.jobs", 17, 1).to_string(), "trainer-0.jobs_17_1");
    }
}
