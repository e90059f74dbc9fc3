//! Done, and here if needed: the workers of a node have nothing left to do, and others may still be at it.
//!
//! In a world the node says so, and meets again when that has to. Outside, because its workers ended there or because the
//! master took it for lost, it joins only if the others are too few without it: nobody who works need be disturbed.

use std::pin::pin;

use super::outcome::Over;
use super::place::Place;
use super::{Launcher, Then};

impl Launcher<'_> {
    /// Waits until the run is closed, or others need this node.
    pub(super) async fn rest(&mut self) -> Then {
        self.membership.finish();
        if self.membership.is_apart() {
            tracing::info!("its workers have nothing left to do; waits for the others");
        }
        let mut forsaken = pin!(self.membership.without_master(self.launch.join_within));
        loop {
            if self.membership.is_needed() {
                tracing::info!("there are too few nodes without this one; joins again");
                return Then::Join(None);
            }
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::Closed(cause) => return Then::End(Over::closed(cause)),
                    Place::Barred(bar) => return Then::End(bar.into()),
                    Place::Restart { .. } if !self.membership.is_apart() => return Then::Join(None),
                    // What is left of the world that it stands aside from, or nothing that asks for it.
                    Place::Restart { .. } | Place::InWorld(_) | Place::Waiting { .. } => {}
                },
                within = &mut forsaken => return Then::End(self.no_world(within)),
                signal = self.signals.until_first() => return Then::End(Over::Signal(signal)),
            }
        }
    }
}
