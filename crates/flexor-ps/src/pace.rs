//! Paces background work: syncs of partitions and checkpoints.
//!
//! Background work shares processors and memory with training, and must not halve its speed. So it pauses after each turn,
//! four times as long as the turn took, while clients are being served. Without clients it does not pause. The pause has an
//! upper limit, so that an overloaded machine still makes progress.

use std::time::Duration;

use crate::hosted::HostedPartitions;

/// Length of the pause relative to the turn.
const PAUSE_FACTOR: u32 = 4;

/// Decides the pauses of one background task.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Number of requests served at the last call.
    served: u64,
    longest_pause: Duration,
}

impl Pace {
    pub(crate) fn new(hosted: &HostedPartitions, longest_pause: Duration) -> Self {
        Self { served: hosted.answered(), longest_pause }
    }

    /// The pause after a turn that took this long.
    pub(crate) fn pause_after(&mut self, took: Duration, hosted: &HostedPartitions) -> Duration {
        let before = std::mem::replace(&mut self.served, hosted.answered());
        match before == self.served {
            true => Duration::ZERO,
            false => (took * PAUSE_FACTOR).min(self.longest_pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{TestGradients, layout, optimizers};

    #[test]
    fn it_pauses_only_while_clients_are_served() {
        let layout = layout(optimizers()[0]);
        let hosted = HostedPartitions::new(layout.clone());
        let longest = Duration::from_millis(10);
        let mut pace = Pace::new(&hosted, longest);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(1));
        assert_eq!(pace.pause_after(long, &hosted), Duration::ZERO);
        TestGradients::of_batch(&layout, 1).push(&hosted);
        assert_eq!(pace.pause_after(short, &hosted), short * PAUSE_FACTOR);
        assert_eq!(pace.pause_after(short, &hosted), Duration::ZERO);
        TestGradients::of_batch(&layout, 1).push(&hosted);
        assert_eq!(pace.pause_after(long, &hosted), longest);
        // A pull of a model without tables counts too.
        hosted.count_pull(0);
        assert_eq!(pace.pause_after(short, &hosted), short * PAUSE_FACTOR);
    }
}
