//! An instant on the wall clock.
//!
//! Every stored or shown instant of a job is a [`UnixTime`]; lengths of time stay [`Duration`]s. Nothing here reads a
//! clock: `now` is an argument everywhere.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch, from 1970 to 2554.
///
/// Written as RFC 3339 text in UTC with as many digits of the second as it needs, so no nanosecond is lost. Kubernetes
/// reads that text in its `Time` fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Timestamp", try_from = "Timestamp")]
pub struct UnixTime(u64);

/// The instant lies before 1970 or after 2554.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} lies outside of 1970 to 2554")]
pub struct TimeOutOfRange(Timestamp);

impl UnixTime {
    /// Midnight of 1 January 1970 in UTC.
    pub const EPOCH: Self = Self(0);

    /// The instant so many seconds after the epoch; the last one that fits, if it is later.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The instant so many milliseconds after the epoch; the last one that fits, if it is later.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since the epoch.
    pub const fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The time from `earlier` to this instant; zero if `earlier` is the later one.
    pub const fn saturating_sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same without a fraction of a second, as Kubernetes keeps it.
    #[must_use]
    pub const fn whole_second(self) -> Self {
        Self(self.0 - self.0 % 1_000_000_000)
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    /// Stays at the last instant that fits.
    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for UnixTime {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

impl From<SystemTime> for UnixTime {
    /// A clock that stands before 1970 reads as the epoch.
    fn from(time: SystemTime) -> Self {
        Self::EPOCH + time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

impl TryFrom<Timestamp> for UnixTime {
    type Error = TimeOutOfRange;

    fn try_from(at: Timestamp) -> Result<Self, TimeOutOfRange> {
        u64::try_from(at.as_nanosecond()).map(Self).map_err(|_| TimeOutOfRange(at))
    }
}

impl From<UnixTime> for Timestamp {
    fn from(at: UnixTime) -> Self {
        Timestamp::from_nanosecond(at.0.into()).expect("every year from 1970 to 2554 has timestamps")
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Timestamp::from(*self).fmt(f)
    }
}

impl FromStr for UnixTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at: Timestamp = text.parse().map_err(|error: jiff::Error| error.to_string())?;
        at.try_into().map_err(|error: TimeOutOfRange| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instant_is_written_as_rfc_3339_with_the_digits_it_needs() {
        let written = |at: UnixTime| serde_json::to_string(&at).unwrap();
        assert_eq!(written(UnixTime::from_secs(1_700_000_000)), r#""2023-11-14T22:13:20Z""#);
        assert_eq!(written(UnixTime::from_millis(1_700_000_000_250)), r#""2023-11-14T22:13:20.25Z""#);
        assert_eq!(written(UnixTime(u64::MAX)), r#""2554-07-21T23:34:33.709551615Z""#);
        assert_eq!("2023-11-14T23:13:20+01:00".parse(), Ok(UnixTime::from_secs(1_700_000_000)));
        assert!(serde_json::from_str::<UnixTime>(r#""1969-12-31T23:59:59Z""#).is_err());
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let end = UnixTime(u64::MAX);
        assert_eq!(end + Duration::MAX, end);
        assert_eq!(UnixTime::EPOCH.saturating_sub(end), Duration::ZERO);
        assert_eq!((UnixTime::from_secs(5) + Duration::from_millis(1)).whole_second(), UnixTime::from_secs(5));
    }

    proptest! {
        #[test]
        fn no_nanosecond_is_lost_in_writing(nanos in any::<u64>()) {
            let at = UnixTime(nanos);
            prop_assert_eq!(serde_json::from_str::<UnixTime>(&serde_json::to_string(&at).unwrap()).unwrap(), at);
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }
    }
}
