//! Work beside training: copies of partitions and checkpoints.
//!
//! It shares processors and memory with training and is never urgent enough to halve it. So it rests after each turn,
//! four times as long as the turn took, as long as clients are being answered; where nobody asks it does not rest at all. A
//! rest has an upper limit, so that a machine that has no time for anything still gets on.

use std::time::Duration;

use crate::hosted::Hosted;

/// How much longer than a turn the rest after it is.
const REST: u32 = 4;

/// How somebody takes turns with training.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many requests were answered when it last looked.
    answered: u64,
    longest_rest: Duration,
}

impl Pace {
    pub(crate) fn new(hosted: &Hosted, longest_rest: Duration) -> Self {
        Self { answered: hosted.answered(), longest_rest }
    }

    /// How long to rest after a turn that took this long.
    pub(crate) fn rest_after(&mut self, took: Duration, hosted: &Hosted) -> Duration {
        let before = std::mem::replace(&mut self.answered, hosted.answered());
        match before == self.answered {
            true => Duration::ZERO,
            false => (took * REST).min(self.longest_rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Gradients, layout, optimizers};

    #[test]
    fn it_rests_only_while_somebody_trains() {
        let layout = layout(optimizers()[0]);
        let hosted = Hosted::new(layout.clone());
        let longest = Duration::from_millis(10);
        let mut pace = Pace::new(&hosted, longest);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(1));
        assert_eq!(pace.rest_after(long, &hosted), Duration::ZERO);
        Gradients::of_batch(&layout, 1).push(&hosted);
        assert_eq!(pace.rest_after(short, &hosted), short * REST);
        assert_eq!(pace.rest_after(short, &hosted), Duration::ZERO);
        Gradients::of_batch(&layout, 1).push(&hosted);
        assert_eq!(pace.rest_after(long, &hosted), longest);
        // Of a model without tables nothing but variables is pulled.
        hosted.count_pull(0);
        assert_eq!(pace.rest_after(short, &hosted), short * REST);
    }
}
