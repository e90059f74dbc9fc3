//! A finished node: its workers have succeeded, and workers of other nodes may still run.
//!
//! In a world the node reports that it has finished, and takes part in the next rendezvous. Outside a world (its workers
//! ended there, or the master took it for lost) it joins only if the other nodes are too few without it. So it never
//! interrupts nodes that work.

use std::pin::pin;

use super::launch_end::LaunchEnd;
use super::node_state::NodeState;
use super::{Launcher, NextStep};

impl Launcher<'_> {
    /// Waits until the run is closed, or the other nodes need this one.
    pub(super) async fn await_close(&mut self) -> NextStep {
        self.membership.finish();
        if self.membership.has_stood_aside() {
            tracing::info!("its workers have nothing left to do; waits for the others");
        }
        let mut master_missing = pin!(self.membership.master_missing_for(self.launch.join_timeout));
        loop {
            if self.membership.is_needed() {
                tracing::info!("there are too few nodes without this one; joins again");
                return NextStep::AwaitWorld(None);
            }
            tokio::select! {
                state = self.membership.next_state() => match state {
                    NodeState::Closed(cause) => return NextStep::End(LaunchEnd::closed(cause)),
                    NodeState::Rejected(rejection) => return NextStep::End(rejection.into()),
                    NodeState::Restart { .. } if !self.membership.has_stood_aside() => {
                        return NextStep::AwaitWorld(None);
                    }
                    // A remnant of the world that the node left, or a state that does not need it.
                    NodeState::Restart { .. } | NodeState::InWorld(_) | NodeState::Waiting { .. } => {}
                },
                within = &mut master_missing => return NextStep::End(self.no_world(within)),
                signal = self.signals.until_first() => return NextStep::End(LaunchEnd::Signal(signal)),
            }
        }
    }
}
