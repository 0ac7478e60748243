//! Points in time, in UTC, as reports write them. Leap seconds are not counted, as Unix time does not.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, 0 for a clock that is set before it.
#[must_use]
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// RFC 3339 to the second: `2026-11-21T19:03:20Z`.
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    let (year, month, day) = civil(unix_ms / 86_400_000);
    let (hour, minute, second, _) = clock(unix_ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// As YCSB's status lines begin: `2026-11-21 19:03:20:496`.
#[must_use]
pub fn ycsb(unix_ms: u64) -> String {
    let (year, month, day) = civil(unix_ms / 86_400_000);
    let (hour, minute, second, milli) = clock(unix_ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}:{milli:03}")
}

fn clock(unix_ms: u64) -> (u64, u64, u64, u64) {
    let seconds = unix_ms / 1000;
    (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60, unix_ms % 1000)
}

/// Year, month and day of a day number since 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 146_097 * 400;
    let mut rest = days % 146_097;
    while rest >= year_days(year) {
        rest -= year_days(year);
        year += 1;
    }
    let february = year_days(year) - 337;
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month, rest + 1)
}

fn year_days(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (13_574_606_400_000, "2400-02-29T12:00:00Z"),
        ];
        for (milliseconds, want) in table {
            assert_eq!(rfc3339(milliseconds), want);
        }
        assert_eq!(ycsb(1_795_287_800_496), "2026-11-21 19:03:20:496");
    }
}
