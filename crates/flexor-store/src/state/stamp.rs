//! A timestamp of an agent: Python's `datetime`, ten bytes in a pickle, with or without a zone.
//!
//! This module reads no clock: callers pass the time in.

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// From 0001-01-01, where Python's calendar begins, to 1970-01-01.
const DAYS_BEFORE_EPOCH: i64 = 719_162;
const DAYS_PER_400_YEARS: i64 = 146_097;
const DAYS_PER_100_YEARS: i64 = 36_524;
const DAYS_PER_4_YEARS: i64 = 1461;
/// The days of a common year before each month.
const DAYS_BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Whether a `datetime` carries the zone UTC.
///
/// Python cannot compare a time with a zone to one without, so an agent must read times of the kind that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Zone {
    /// It carries the zone: torch 2.6 and later.
    Utc,
    /// It is in UTC without saying so: torch up to 2.5. Python calls it naive.
    Unsaid,
}

/// Microseconds since the Unix epoch, UTC, within the years 1 to 9999 that Python's `datetime` can hold; ordered by
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    micros: i64,
    zone: Zone,
}

impl Stamp {
    /// The beginning of the year 1.
    pub const MIN: Self = Self::utc(-DAYS_BEFORE_EPOCH * MICROS_PER_DAY);
    /// The last microsecond of the year 9999.
    pub const MAX: Self = Self::utc((25 * DAYS_PER_400_YEARS - 366 - DAYS_BEFORE_EPOCH) * MICROS_PER_DAY - 1);

    /// A timestamp with the zone UTC. `None` outside of the years 1 to 9999.
    pub const fn from_unix_micros(micros: i64) -> Option<Self> {
        if Self::MIN.micros <= micros && micros <= Self::MAX.micros { Some(Self::utc(micros)) } else { None }
    }

    /// The timestamp some microseconds later, of the same kind. `None` outside of the years 1 to 9999.
    pub const fn later_by(self, micros: i64) -> Option<Self> {
        match Self::from_unix_micros(self.micros.saturating_add(micros)) {
            Some(later) => Some(later.in_zone(self.zone)),
            None => None,
        }
    }

    /// The same time as another kind of timestamp.
    pub const fn in_zone(self, zone: Zone) -> Self {
        Self { zone, ..self }
    }

    /// Microseconds since the Unix epoch.
    pub const fn unix_micros(self) -> i64 {
        self.micros
    }

    pub const fn zone(self) -> Zone {
        self.zone
    }

    const fn utc(micros: i64) -> Self {
        Self { micros, zone: Zone::Utc }
    }

    /// Reads the argument of a pickled `datetime`: year, month, day, hour, minute, second, microseconds, big endian.
    /// `None` for an invalid time. A set top bit of the month (`fold`) never occurs in UTC.
    pub(super) fn from_pickled(bytes: [u8; 10]) -> Option<Self> {
        let [year_high, year_low, month, day, hour, minute, second, micros @ ..] = bytes;
        let year = i64::from(u16::from_be_bytes([year_high, year_low]));
        let micros = u32::from_be_bytes([0, micros[0], micros[1], micros[2]]);
        let date_exists = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&i64::from(day));
        if !date_exists || hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
            return None;
        }
        let days = days_before_year(year) + days_before_month(year, month) + i64::from(day) - 1 - DAYS_BEFORE_EPOCH;
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        Some(Self::utc(days * MICROS_PER_DAY + seconds * 1_000_000 + i64::from(micros)))
    }

    /// The inverse of [`from_pickled`](Self::from_pickled).
    pub(super) fn to_pickled(self) -> [u8; 10] {
        let (year, month, day) = date(self.micros.div_euclid(MICROS_PER_DAY) + DAYS_BEFORE_EPOCH);
        let in_day = self.micros.rem_euclid(MICROS_PER_DAY);
        let seconds = in_day / 1_000_000;
        let year = (year as u16).to_be_bytes();
        let micros = ((in_day % 1_000_000) as u32).to_be_bytes();
        let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(|part| part as u8);
        [year[0], year[1], month, day, hour, minute, second, micros[1], micros[2], micros[3]]
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The days from the beginning of the year 1 to that of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400
}

/// The days from the beginning of the year to that of `month`, 1 to 12.
fn days_before_month(year: i64, month: u8) -> i64 {
    DAYS_BEFORE_MONTH[usize::from(month) - 1] + i64::from(month > 2 && is_leap(year))
}

fn days_in_month(year: i64, month: u8) -> i64 {
    let end = if month == 12 { 365 + i64::from(is_leap(year)) } else { days_before_month(year, month + 1) };
    end - days_before_month(year, month)
}

/// Year, month and day of the day that is `days` after 0001-01-01.
fn date(days: i64) -> (i64, u8, u8) {
    let (of_400, days) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);
    // Every fourth century and every fourth year are one day longer than the others.
    let of_100 = (days / DAYS_PER_100_YEARS).min(3);
    let days = days - of_100 * DAYS_PER_100_YEARS;
    let (of_4, days) = (days / DAYS_PER_4_YEARS, days % DAYS_PER_4_YEARS);
    let of_1 = (days / 365).min(3);
    let day_of_year = days - of_1 * 365;
    let year = 400 * of_400 + 100 * of_100 + 4 * of_4 + of_1 + 1;
    let mut month = 12;
    while days_before_month(year, month) > day_of_year {
        month -= 1;
    }
    (year, month, (day_of_year - days_before_month(year, month) + 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_read_and_written() {
        let known: [(i64, [u8; 10]); 4] = [
            (0, [0x07, 0xb2, 1, 1, 0, 0, 0, 0, 0, 0]),
            // 2000-02-29 23:59:59.999999
            (951_868_799_999_999, [0x07, 0xd0, 2, 29, 23, 59, 59, 0x0f, 0x42, 0x3f]),
            (Stamp::MIN.unix_micros(), [0, 1, 1, 1, 0, 0, 0, 0, 0, 0]),
            (Stamp::MAX.unix_micros(), [0x27, 0x0f, 12, 31, 23, 59, 59, 0x0f, 0x42, 0x3f]),
        ];
        for (micros, pickled) in known {
            let stamp = Stamp::from_unix_micros(micros).unwrap();
            assert_eq!(stamp.to_pickled(), pickled, "{micros}");
            assert_eq!(Stamp::from_pickled(pickled), Some(stamp), "{micros}");
        }
    }

    #[test]
    fn every_day_of_the_calendar_round_trips() {
        let mut days = (Stamp::MIN.micros..=Stamp::MAX.micros).step_by(MICROS_PER_DAY as usize);
        let there_and_back = |micros| Stamp::from_pickled(Stamp::utc(micros).to_pickled()) == Some(Stamp::utc(micros));
        assert!(days.all(there_and_back));
    }

    #[test]
    fn a_time_that_does_not_exist_is_none() {
        let noon = [0x07, 0xe7, 2, 28, 12, 0, 0, 0, 0, 0];
        assert!(Stamp::from_pickled(noon).is_some());
        let wrong = [(0, 0xff), (2, 0), (2, 13), (2, 0x82), (3, 0), (3, 29), (4, 24), (5, 60), (6, 60), (7, 0x10)];
        for (place, byte) in wrong {
            let mut bytes = noon;
            bytes[place] = byte;
            assert_eq!(Stamp::from_pickled(bytes), None, "{bytes:?}");
        }
        assert_eq!(Stamp::from_unix_micros(Stamp::MIN.micros - 1), None);
        assert_eq!(Stamp::from_unix_micros(Stamp::MAX.micros + 1), None);
    }
}
