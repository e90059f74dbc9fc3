//! The wait for a world: first for a master, then for the other nodes.
//!
//! The node logs what it waits for. Meanwhile it watches the run, fencing, the signals, and workers that are kept for the
//! next world.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::launch_end::LaunchEnd;
use super::local_group::LocalGroup;
use super::node_state::NodeState;
use super::wait_log::WaitLog;
use super::{Launcher, NextStep, outside_start};

impl Launcher<'_> {
    /// Waits for a master. Where the job's processes survive changes, the node starts its own before it joins.
    pub(super) async fn await_master(&mut self) -> NextStep {
        let since = Instant::now();
        let mut wait_log = WaitLog::start();
        loop {
            tokio::select! {
                job = self.membership.await_job() => return match job {
                    Ok(job) if job.survives_changes && !self.membership.is_closed() => {
                        NextStep::StartOutside(Duration::ZERO)
                    }
                    Ok(_) => NextStep::AwaitWorld(None),
                    Err(rejection) => NextStep::End(rejection.into()),
                },
                () = sleep_until(wait_log.due()) => wait_log.log(self.membership.describe_wait()),
                within = elapsed(since, self.launch.join_timeout) => return NextStep::End(self.no_world(within)),
                signal = self.signals.until_first() => return NextStep::End(LaunchEnd::Signal(signal)),
            }
        }
    }

    /// Waits for the next world that this node is in. Workers that are kept for it may end in the meantime.
    pub(super) async fn await_world(&mut self, mut kept: Option<Box<LocalGroup>>) -> NextStep {
        let survives = kept.as_ref().is_some_and(|group| group.had_world());
        self.membership.join(survives);
        let (since, limit) = (Instant::now(), self.launch.join_timeout);
        let mut wait_log = WaitLog::start();
        let end = loop {
            if let Some(group) = kept.take_if(|group| !group.workers.exits().is_empty()) {
                tracing::warn!("a worker ended while it waited for a world");
                let outcome = outside_start::outcome_of_exits(&group);
                return self.handle_outside_outcome(*group, outcome).await;
            }
            tokio::select! {
                state = self.membership.next_state() => match state {
                    NodeState::InWorld(world) => return NextStep::Work(world, kept),
                    NodeState::Closed(cause) if !self.incarnations.has_any() => break LaunchEnd::closed_before(cause),
                    NodeState::Closed(cause) => break LaunchEnd::closed(cause),
                    NodeState::Rejected(rejection) => break rejection.into(),
                    // The awaited world ended before this node saw it.
                    NodeState::Restart { .. } => self.membership.join(survives),
                    NodeState::Waiting { .. } => {}
                },
                () = sleep_until(wait_log.due()) => wait_log.log(self.membership.describe_wait()),
                () = worker_exit(&mut kept) => {}
                within = elapsed(since, limit) => break self.no_world(within),
                signal = self.signals.until_first() => break LaunchEnd::Signal(signal),
            }
        };
        self.give_up(kept, &end).await;
        NextStep::End(end)
    }

    pub(super) fn no_world(&self, within: Duration) -> LaunchEnd {
        LaunchEnd::NoWorld { within, waited_for: self.membership.describe_wait(), report: None }
    }
}

/// Waits until a kept worker has ended; for ever where none is kept.
async fn worker_exit(kept: &mut Option<Box<LocalGroup>>) {
    match kept {
        Some(group) => drop(group.workers.next_exit().await),
        None => std::future::pending().await,
    }
}

/// Waits until a limit has passed and returns it; for ever where there is none.
async fn elapsed(since: Instant, limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep_until(since + limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}
