//! Reads the progress of the example program from its log.

use std::time::{Duration, Instant};

use anyhow::Result;
use flexor_testbed::flexor_processes::JobNode;

/// One step of one worker, from its line in the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Progress {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) step: u64,
    pub(super) loss: f64,
}

impl Progress {
    /// Parses `rank 0/3 restart 0 epoch 0 position 960 step 10 loss 0.1234`; `None` for other lines.
    fn read(line: &str) -> Option<Progress> {
        let mut words = line.split(' ');
        let mut after = |name: &str| words.by_ref().skip_while(|word| *word != name).nth(1);
        let (rank, world) = after("rank")?.split_once('/')?;
        let (step, loss) = (after("step")?, after("loss")?);
        Some(Progress {
            rank: rank.parse().ok()?,
            world: world.parse().ok()?,
            step: step.parse().ok()?,
            loss: loss.parse().ok()?,
        })
    }
}

/// The ends of the logs of some nodes at one moment, from which later lines are read.
pub(super) struct LogPosition {
    logs: Vec<(String, usize)>,
    made: Instant,
}

impl LogPosition {
    /// To be called just before a fault.
    pub(super) fn of(nodes: &[JobNode]) -> LogPosition {
        let log = |node: &JobNode| (node.agent().name().to_owned(), node.agent().log().len());
        LogPosition { logs: nodes.iter().map(log).collect(), made: Instant::now() }
    }

    /// How long ago that was.
    pub(super) fn elapsed(&self) -> Duration {
        self.made.elapsed()
    }

    /// Waits until every node has logged a step for which `wanted` holds after this position; returns the first of
    /// each.
    pub(super) fn await_steps(
        &self,
        nodes: &[JobNode],
        deadline: Duration,
        wanted: impl Fn(&Progress) -> bool,
    ) -> Result<Vec<Progress>> {
        let mut found = Vec::new();
        for node in nodes {
            let mut first = None;
            node.agent().await_log(deadline.saturating_sub(self.elapsed()), |log| {
                first = self.later(node, log).filter_map(Progress::read).find(&wanted);
                first.is_some()
            })?;
            found.extend(first);
        }
        Ok(found)
    }

    /// How often the worker of this node was started after this mark.
    pub(super) fn starts(&self, node: &JobNode) -> usize {
        self.later(node, &node.agent().log()).filter(|line| line.contains(" starts at step ")).count()
    }

    /// The step from which the worker of this node started after this position.
    pub(super) fn resumed_at(&self, node: &JobNode) -> Option<u64> {
        let log = node.agent().log();
        let mut later = self.later(node, &log);
        later.find_map(|line| line.split_once(" starts at step ")?.1.trim().parse().ok())
    }

    fn later<'a>(&self, node: &JobNode, log: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.logs.iter().find(|(name, _)| name == node.agent().name()).map_or(0, |(_, length)| *length);
        log.get(from..).unwrap_or_default().lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_example_is_understood() {
        let line = "rank 1/3 restart 2 epoch 0 position 960 step 10 loss 0.1234";
        assert_eq!(Progress::read(line), Some(Progress { rank: 1, world: 3, step: 10, loss: 0.1234 }));
        assert_eq!(Progress::read("rank 1/3 restart 0 starts at step 20"), None);
        assert_eq!(Progress::read("W1115 rank torch says other things"), None);
    }
}
