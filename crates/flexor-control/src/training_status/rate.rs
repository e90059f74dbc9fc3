//! The rate at which a reported count grows.
//!
//! A rate is taken between two reports that are far enough apart: a late report followed by one in time would show a jump.
//! A count that has not grown for much longer than it usually takes has a rate of 0, even if no report says so: a program
//! that does nothing reports nothing.

use std::time::Duration;

use flexor_model::UnixTime;

/// A count that has not grown for this long stands still, while its usual pause is not known.
const STILL_AFTER: Duration = Duration::from_secs(10);
/// A count that has not grown for so many of its usual pauses stands still, and never before [`LEAST_STILL`].
const PAUSES: u32 = 3;
const LEAST_STILL: Duration = Duration::from_secs(3);
/// For this long after a standstill, reports may come that are late.
const LATE: Duration = Duration::from_millis(800);

/// The least time that a rate is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Of the next rate. The first window is short, so that a short job has a rate too.
    pub(super) next: Duration,
    /// Windows double up to this length, so that rates settle.
    pub(super) most: Duration,
}

impl Window {
    fn longer(self) -> Self {
        Self { next: (self.next * 2).min(self.most), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    window: Window,
    value: f64,
    /// When the count last grew.
    moved_at: UnixTime,
    /// The usual time between two reports that show growth, once it is known.
    pause: Option<Duration>,
    /// Where the next rate begins.
    mark: Mark,
    known: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mark {
    /// The count had this value then.
    At(UnixTime, f64),
    /// At the first report from then on: reports that come right after a standstill may be late.
    From(UnixTime),
}

impl Rate {
    /// The rate after a report of a count. A count that is smaller than before starts a new rate.
    pub(super) fn after(before: Option<Self>, value: f64, window: Window, now: UnixTime) -> Self {
        match before {
            Some(before) if value > before.value => before.moved(value, now),
            Some(before) if value >= before.value => before,
            Some(_) | None => {
                Self { window, value, moved_at: now, pause: None, mark: Mark::At(now, value), known: None }
            }
        }
    }

    /// The growth in a second, once it is known.
    pub(super) fn per_second(&self, now: UnixTime) -> Option<f64> {
        if self.is_still(now) { Some(0.0) } else { self.known }
    }

    fn is_still(&self, now: UnixTime) -> bool {
        let patience = self.pause.map_or(STILL_AFTER, |pause| (pause * PAUSES).max(LEAST_STILL));
        now.saturating_sub(self.moved_at) >= patience
    }

    fn moved(mut self, value: f64, now: UnixTime) -> Self {
        let was_still = self.is_still(now);
        if !was_still {
            let pause = now.saturating_sub(self.moved_at);
            // A count that two programs report grows twice in a row.
            self.pause = Some(self.pause.map_or(pause, |known| pause.max(known / 2)));
        }
        (self.mark, self.known) = match self.mark {
            Mark::At(at, from) if now.saturating_sub(at) >= self.window.next => {
                self.window = self.window.longer();
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
    const EVENLY: Window = Window { next: SECOND, most: SECOND };

    fn seconds(seconds: f64) -> UnixTime {
        UnixTime::EPOCH + Duration::from_secs_f64(seconds)
    }

    fn after(reports: &[(f64, f64)]) -> Rate {
        let rate = reports.iter().fold(None, |rate, (at, value)| Some(Rate::after(rate, *value, EVENLY, seconds(*at))));
        rate.unwrap()
    }

    #[test]
    fn a_rate_is_taken_between_two_reports() {
        assert_eq!(after(&[(1.0, 5.0)]).per_second(seconds(1.0)), None);
        assert_eq!(after(&[(1.0, 5.0), (1.2, 90.0)]).per_second(seconds(1.3)), None, "too near");
        assert_eq!(after(&[(1.0, 5.0), (1.2, 90.0), (3.0, 105.0)]).per_second(seconds(3.1)), Some(50.0));
        assert_eq!(after(&[(1.0, 5.0), (3.0, 105.0), (4.0, 3.0)]).per_second(seconds(4.1)), None, "it went back");
    }

    #[test]
    fn the_first_window_is_short_and_each_after_it_twice_as_long() {
        let window = Window { next: SECOND / 4, most: SECOND };
        // 10 a second, then 20.
        let count = |at: f64| at * 10.0 + (at - 0.5).max(0.0) * 10.0;
        let mut rate = Rate::after(None, 0.0, window, UnixTime::EPOCH);
        let mut known_rates = Vec::new();
        for tick in 1..=30 {
            let at = f64::from(tick) / 10.0;
            rate = Rate::after(Some(rate), count(at), window, seconds(at));
            if rate.known != known_rates.last().map(|(_, known)| *known) {
                known_rates.extend(rate.known.map(|known| (tick, known)));
            }
        }
        let known_rates: Vec<(i32, f64)> = known_rates.iter().map(|(tick, known)| (*tick, known.round())).collect();
        assert_eq!(known_rates, [(3, 10.0), (8, 16.0), (18, 20.0)]);
    }

    #[test]
    fn a_count_that_grows_often_is_soon_known_to_stand_still() {
        let rate = after(&[(0.0, 0.0), (1.0, 10.0), (2.0, 20.0)]);
        assert_eq!((rate.per_second(seconds(4.9)), rate.per_second(seconds(5.0))), (Some(10.0), Some(0.0)));
        let seldom = after(&[(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]);
        assert_eq!((seldom.per_second(seconds(24.0)), seldom.per_second(seconds(25.0))), (Some(10.0), Some(0.0)));
        let once = after(&[(0.0, 7.0)]);
        assert_eq!((once.per_second(seconds(9.0)), once.per_second(seconds(10.0))), (None, Some(0.0)));
    }

    #[test]
    fn a_late_report_after_a_standstill_makes_no_jump() {
        // A server is stopped from 2 s to 7 s. Its late report comes when it goes on.
        let stopped = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (7.0, 2.1), (7.1, 2.7)];
        let rate = after(&stopped).per_second(seconds(7.2)).unwrap();
        assert!(rate < 0.1, "{rate}");
        let later = after(&[&stopped[..], &[(8.1, 3.7), (9.1, 4.7)]].concat());
        let rate = later.per_second(seconds(9.2)).unwrap();
        assert!((rate - 1.0).abs() < 1e-9, "{rate}");
    }
}
