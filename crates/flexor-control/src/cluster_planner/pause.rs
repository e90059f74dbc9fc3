//! A pause after something did not work, twice as long after each further time.

use std::time::Duration;

use flexor_model::UnixTime;

const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    pub(super) until: UnixTime,
    /// How many there were before.
    earlier: u32,
}

impl Pause {
    /// The pause that begins now, after another one if there was one lately.
    pub(super) fn after(last: Option<Self>, now: UnixTime) -> Self {
        let earlier = last.map_or(0, |last| last.earlier.saturating_add(1));
        Self { until: now + length(earlier), earlier }
    }

    pub(super) fn length(self) -> Duration {
        length(self.earlier)
    }

    /// Whether it makes the next one longer: what has worked for ten minutes after it begins anew.
    pub(super) fn counts(self, now: UnixTime) -> bool {
        now < self.until + LONGEST
    }
}

fn length(earlier: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(earlier)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_until_it_works_for_a_while() {
        let mut now = UnixTime::from_secs(0);
        let mut last = None;
        let mut lengths = Vec::new();
        for _ in 0..7 {
            let pause = Pause::after(last, now);
            lengths.push(pause.length().as_secs());
            now = pause.until;
            last = Some(pause);
        }
        assert_eq!(lengths, [30, 60, 120, 240, 480, 600, 600]);
        assert!(last.unwrap().counts(now) && !last.unwrap().counts(now + LONGEST));
    }
}
