//! How figures are printed, the same in every report.

/// Three significant digits, no exponent: `0.46`, `4.57`, `45.7`, `457`.
fn significant(value: f64) -> String {
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// With its thousands set apart: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 answer`, `2,000 answers`, `2 queries`.
#[must_use]
pub fn plural(value: u64, thing: &str) -> String {
    match (value, thing.strip_suffix("ry")) {
        (1, _) => format!("1 {thing}"),
        (_, Some(beginning)) => format!("{} {beginning}ries", count(value)),
        (_, None) => format!("{} {thing}s", count(value)),
    }
}

/// A rate a second: whole from a hundred on.
#[must_use]
pub fn rate(per_s: f64) -> String {
    if per_s >= 100.0 { count(per_s.round() as u64) } else { significant(per_s) }
}

/// A latency in the unit that suits it: `0.85 µs`, `45.7 µs`, `1.23 ms`, `12.0 s`.
#[must_use]
pub fn latency(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{} µs", significant(us)),
        us if us < 999_500.0 => format!("{} ms", significant(us / 1e3)),
        us => format!("{} s", significant(us / 1e6)),
    }
}

/// Milliseconds as measured, without their unit: as many digits in one row as in the next.
#[must_use]
pub fn measured_milliseconds(ms: f64) -> String {
    significant(ms)
}

/// Milliseconds as publications print them, without their unit: `0.76`, `3.1`, `35`.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    let text = significant(ms);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Bytes in decimal units: `1.23 GB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    let mut scaled = value as f64;
    if scaled < 1000.0 {
        return format!("{value} B");
    }
    for unit in ["kB", "MB", "GB"] {
        scaled /= 1000.0;
        if scaled < 999.5 {
            return format!("{} {unit}", significant(scaled));
        }
    }
    format!("{} TB", significant(scaled / 1000.0))
}

/// A span of time: `9.50 s`, `1 min 05 s`, `2 h 03 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    if seconds < 99.5 {
        return format!("{} s", significant(seconds));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes:02} min") } else { format!("{minutes} min {rest:02} s") }
}

/// A share: `97.5 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// CPU seconds for a million operations: `8.43`.
#[must_use]
pub fn cpu_seconds(seconds: f64) -> String {
    significant(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        let table = [
            (count(0), "0"),
            (count(999), "999"),
            (count(3_000_000_000), "3,000,000,000"),
            (plural(1, "answer"), "1 answer"),
            (plural(2000, "answer"), "2,000 answers"),
            (plural(1, "query"), "1 query"),
            (plural(2, "query"), "2 queries"),
            (rate(0.5), "0.50"),
            (rate(99.96), "100"),
            (rate(243_120.4), "243,120"),
            (latency(0.456), "0.46 µs"),
            (latency(99.96), "100 µs"),
            (latency(999.6), "1.00 ms"),
            (latency(12_345.0), "12.3 ms"),
            (latency(999_999.0), "1.00 s"),
            (milliseconds(0.764), "0.76"),
            (milliseconds(3.0), "3"),
            (measured_milliseconds(3.0), "3.00"),
            (milliseconds(120.0), "120"),
            (bytes(999), "999 B"),
            (bytes(1_234_567_890), "1.23 GB"),
            (bytes(999_900_000), "1.00 GB"),
            (bytes(12_000_000_000_000), "12.0 TB"),
            (span(9.5), "9.50 s"),
            (span(65.0), "65.0 s"),
            (span(125.4), "2 min 05 s"),
            (span(7_380.0), "2 h 03 min"),
            (percent(0.9751), "97.5 %"),
        ];
        for (got, want) in table {
            assert_eq!(got, want);
        }
    }
}
