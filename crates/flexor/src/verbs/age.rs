//! Ages in kubectl's format: short, and less precise for longer times.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// The age of a timestamp of an object.
pub fn since(at: &Value, now: Timestamp) -> String {
    let Some(at) = at.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else { return "<unknown>".to_owned() };
    // Clocks may differ a little: times in the future have age 0.
    text(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// A duration in kubectl's format.
pub fn text(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |most: u64, unit: char, least: u64, small: char| {
        if least == 0 { format!("{most}{unit}") } else { format!("{most}{unit}{least}{small}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        let (m, h, d) = (60, 3600, 86400);
        for (seconds, written) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * m, "10m"),
            (179 * m, "179m"),
            (3 * h, "3h"),
            (3 * h + 5 * m, "3h5m"),
            (9 * h + 5 * m, "9h"),
            (47 * h, "47h"),
            (48 * h, "2d"),
            (50 * h, "2d2h"),
            (9 * d, "9d"),
            (2 * 365 * d + 3 * d, "2y3d"),
            (9 * 365 * d, "9y"),
        ] {
            assert_eq!(text(Duration::from_secs(seconds)), written);
        }
        assert_eq!(since(&Value::Null, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(&"1970-01-01T00:00:05Z".into(), Timestamp::UNIX_EPOCH), "0s");
    }
}
