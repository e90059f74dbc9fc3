//! How fast a count grows, by what is heard of it now and then.
//!
//! A pace lies between two words that are far enough apart: one that came late and the next that came in time would make a
//! leap of it. A count that is not heard to grow for much longer than it usually takes stands still, whether or not anybody
//! says so: whoever does nothing has nothing to say.

use std::time::Duration;

use flexor_model::UnixTime;

/// What has not moved for so long stands still, as long as nobody knows how often it moves.
const STANDS_STILL: Duration = Duration::from_secs(10);
/// What has not moved for so many of its usual pauses stands still, and never before this.
const PAUSES: u32 = 3;
const LEAST_STILL: Duration = Duration::from_secs(3);
/// So long after a standstill words may still come that were meant to come before.
const LATE: Duration = Duration::from_millis(800);

/// How long a pace is taken over, at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Over {
    /// The next one. The first of all is short: what is over soon has a pace too.
    pub(super) next: Duration,
    /// Those after it are taken over twice as long each, until they do not flicker any more.
    pub(super) most: Duration,
}

impl Over {
    fn longer(self) -> Self {
        Self { next: (self.next * 2).min(self.most), ..self }
    }
}

/// The pace of a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    over: Over,
    /// What was heard last that was not heard before.
    value: f64,
    moved_at: UnixTime,
    /// How long it takes until the count moves, once that is known.
    pause: Option<Duration>,
    /// What the next pace is taken from.
    mark: Mark,
    known: Option<f64>,
}

/// Where a pace begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mark {
    /// The count was so large then.
    At(UnixTime, f64),
    /// With the first word from then on: what comes at once after a standstill may be late.
    From(UnixTime),
}

impl Pace {
    /// After a word about a count, and those before it. A count that is smaller than it was begins anew.
    pub(super) fn heard(before: Option<Self>, value: f64, over: Over, now: UnixTime) -> Self {
        match before {
            Some(before) if value > before.value => before.moved(value, now),
            Some(before) if value >= before.value => before,
            Some(_) | None => Self { over, value, moved_at: now, pause: None, mark: Mark::At(now, value), known: None },
        }
    }

    /// How much it grows in a second, as far as is known now.
    pub(super) fn per_second(&self, now: UnixTime) -> Option<f64> {
        if self.is_still(now) { Some(0.0) } else { self.known }
    }

    fn is_still(&self, now: UnixTime) -> bool {
        let patience = self.pause.map_or(STANDS_STILL, |pause| (pause * PAUSES).max(LEAST_STILL));
        now.saturating_sub(self.moved_at) >= patience
    }

    fn moved(mut self, value: f64, now: UnixTime) -> Self {
        let was_still = self.is_still(now);
        if !was_still {
            let pause = now.saturating_sub(self.moved_at);
            // One that is heard of by two voices moves twice in a row.
            self.pause = Some(self.pause.map_or(pause, |known| pause.max(known / 2)));
        }
        (self.mark, self.known) = match self.mark {
            Mark::At(at, from) if now.saturating_sub(at) >= self.over.next => {
                self.over = self.over.longer();
                let next = if was_still { Mark::From(now + LATE) } else { Mark::At(now, value) };
                (next, Some((value - from) / now.saturating_sub(at).as_secs_f64()))
            }
            Mark::From(at) if now >= at => (Mark::At(now, value), self.known),
            mark @ (Mark::At(..) | Mark::From(_)) => (mark, self.known),
        };
        (self.value, self.moved_at) = (value, now);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const EVENLY: Over = Over { next: SECOND, most: SECOND };

    fn seconds(seconds: f64) -> UnixTime {
        UnixTime::EPOCH + Duration::from_secs_f64(seconds)
    }

    fn heard(words: &[(f64, f64)]) -> Pace {
        let pace = words.iter().fold(None, |pace, (at, value)| Some(Pace::heard(pace, *value, EVENLY, seconds(*at))));
        pace.unwrap()
    }

    #[test]
    fn a_pace_lies_between_two_words() {
        assert_eq!(heard(&[(1.0, 5.0)]).per_second(seconds(1.0)), None);
        assert_eq!(heard(&[(1.0, 5.0), (1.2, 90.0)]).per_second(seconds(1.3)), None, "too near");
        assert_eq!(heard(&[(1.0, 5.0), (1.2, 90.0), (3.0, 105.0)]).per_second(seconds(3.1)), Some(50.0));
        assert_eq!(heard(&[(1.0, 5.0), (3.0, 105.0), (4.0, 3.0)]).per_second(seconds(4.1)), None, "it went back");
    }

    #[test]
    fn the_first_pace_comes_early_and_each_after_it_lasts_twice_as_long() {
        let over = Over { next: SECOND / 4, most: SECOND };
        // 10 a second, then 20.
        let count = |at: f64| at * 10.0 + (at - 0.5).max(0.0) * 10.0;
        let mut pace = Pace::heard(None, 0.0, over, UnixTime::EPOCH);
        let mut told = Vec::new();
        for tick in 1..=30 {
            let at = f64::from(tick) / 10.0;
            pace = Pace::heard(Some(pace), count(at), over, seconds(at));
            if pace.known != told.last().map(|(_, known)| *known) {
                told.extend(pace.known.map(|known| (tick, known)));
            }
        }
        let told: Vec<(i32, f64)> = told.iter().map(|(tick, known)| (*tick, known.round())).collect();
        assert_eq!(told, [(3, 10.0), (8, 16.0), (18, 20.0)]);
    }

    #[test]
    fn what_moves_often_is_soon_known_to_stand_still() {
        let pace = heard(&[(0.0, 0.0), (1.0, 10.0), (2.0, 20.0)]);
        assert_eq!((pace.per_second(seconds(4.9)), pace.per_second(seconds(5.0))), (Some(10.0), Some(0.0)));
        let seldom = heard(&[(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]);
        assert_eq!((seldom.per_second(seconds(24.0)), seldom.per_second(seconds(25.0))), (Some(10.0), Some(0.0)));
        let once = heard(&[(0.0, 7.0)]);
        assert_eq!((once.per_second(seconds(9.0)), once.per_second(seconds(10.0))), (None, Some(0.0)));
    }

    #[test]
    fn a_late_word_after_a_standstill_makes_no_leap() {
        // A server is stopped from 2 s to 7 s. What it had wanted to say before comes when it goes on.
        let stopped = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (7.0, 2.1), (7.1, 2.7)];
        let pace = heard(&stopped).per_second(seconds(7.2)).unwrap();
        assert!(pace < 0.1, "{pace}");
        let later = heard(&[&stopped[..], &[(8.1, 3.7), (9.1, 4.7)]].concat());
        let pace = later.per_second(seconds(9.2)).unwrap();
        assert!((pace - 1.0).abs() < 1e-9, "{pace}");
    }
}
