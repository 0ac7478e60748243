//! Axes: which values get a tick, and how a tick is written. `charts.js` does the same for a chart that was zoomed.

use crate::figure;

/// Seconds between ticks of a time axis.
const TIME_STEPS_S: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0];
/// Most ticks of a time axis.
const TIME_TICKS_MAX: f64 = 9.0;
/// Longer axes are written in minutes and hours.
const CLOCK_FROM_S: f64 = 300.0;

/// What a vertical axis measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Operations a second.
    Rate,
    /// Microseconds.
    Latency,
    /// Bytes.
    Bytes,
    /// A plain number.
    Number,
}

impl Quantity {
    /// Its name in the chart's data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Latency => "us",
            Self::Bytes => "bytes",
            Self::Number => "number",
        }
    }

    /// A tick's text: no more digits than it needs.
    #[must_use]
    pub fn tick(self, value: f64) -> String {
        let scaled = |unit: f64, name: &str| format!("{} {name}", short(value / unit));
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Self::Rate | Self::Number if value < 1000.0 => short(value),
            Self::Rate | Self::Number if value < 1e7 => figure::count(value.round() as u64),
            Self::Rate | Self::Number => scaled(1e6, "M"),
            Self::Latency if value < 1e3 => scaled(1.0, "µs"),
            Self::Latency if value < 1e6 => scaled(1e3, "ms"),
            Self::Latency => scaled(1e6, "s"),
            Self::Bytes if value < 1e6 => scaled(1e3, "kB"),
            Self::Bytes if value < 1e9 => scaled(1e6, "MB"),
            Self::Bytes => scaled(1e9, "GB"),
        }
    }
}

/// At most three decimals, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ticks from 0 to the first one at or above `max`, about five of them; whole ones where there are only `whole` values.
#[must_use]
pub fn linear(max: f64, whole: bool) -> Vec<f64> {
    let max = if max > 0.0 { max } else { 1.0 };
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999 && (!whole || step.fract() == 0.0));
    let step = step.unwrap_or(power * 10.0);
    let steps = (max / step - 1e-9).ceil() as u32;
    (0..=steps).map(|n| f64::from(n) * step).collect()
}

/// Ticks of an axis of operations a second.
#[must_use]
pub fn loads(low: f64, high: f64) -> Vec<(f64, String)> {
    let ticks = linear(high, false).into_iter().filter(|tick| (low..=high).contains(tick));
    ticks.map(|tick| (tick, format!("{}/s", Quantity::Rate.tick(tick)))).collect()
}

/// Ticks of a logarithmic axis whose ends enclose both values: 1, 10, 100, …, and 2 and 5 between while they are few.
#[must_use]
pub fn logarithmic(min: f64, max: f64) -> Vec<f64> {
    let min = if min > 0.0 { min } else { 0.1 };
    let max = if max > min { max } else { min * 10.0 };
    let (low, high) = ((min * 1.001).log10().floor() as i32, (max * 0.999).log10().ceil() as i32);
    let digits: &[f64] = if high - low <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = (low..=high).flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
    let ticks: Vec<f64> = all.filter(|tick| *tick <= 10f64.powi(high) * 1.001).collect();
    // One tick below the least value, and one above the greatest, are enough.
    let first = ticks.iter().rposition(|tick| *tick <= min * 1.001).unwrap_or(0);
    let last = ticks.iter().position(|tick| *tick >= max * 0.999).unwrap_or(ticks.len() - 1);
    ticks[first..=last.max(first + 1).min(ticks.len() - 1)].to_vec()
}

/// Ticks of a time axis with their texts.
#[must_use]
pub fn time(low_s: f64, high_s: f64) -> Vec<(f64, String)> {
    let span = (high_s - low_s).max(1.0);
    let step = TIME_STEPS_S.into_iter().find(|step| span / step <= TIME_TICKS_MAX);
    let step = step.unwrap_or_else(|| (span / TIME_TICKS_MAX / 3600.0).ceil() * 3600.0);
    let first = (low_s / step).ceil() as u64;
    let ticks = (first..).map(|n| n as f64 * step).take_while(|tick| *tick <= high_s + 1e-9);
    ticks.map(|tick| (tick, clock(tick, high_s))).collect()
}

fn clock(seconds: f64, longest_s: f64) -> String {
    let whole = seconds as u64;
    if longest_s < CLOCK_FROM_S {
        format!("{whole} s")
    } else if longest_s < 3600.0 {
        format!("{}:{:02}", whole / 60, whole % 60)
    } else {
        format!("{}:{:02} h", whole / 3600, whole / 60 % 60)
    }
}

/// Where a percentile lies on the axis of a distribution: the number of its nines (90 % → 1, 99.9 % → 3). The maximum of
/// `count` values lies where all but one of them are below.
#[must_use]
pub fn nines(percentile: f64, count: u64) -> f64 {
    let end = (count.max(1) as f64).log10();
    let above = 1.0 - percentile / 100.0;
    if above <= 0.0 { end } else { (-above.log10()).clamp(0.0, end) }
}

/// Ticks of a distribution's axis with their texts.
#[must_use]
pub fn percentiles(high: f64) -> Vec<(f64, String)> {
    let mut ticks = vec![(0.0, "0 %".to_owned())];
    // Further out, 50 % stands too close to 0 %.
    if (0.5..=4.0).contains(&high) {
        ticks.push((2f64.log10(), "50 %".to_owned()));
    }
    for digits in 1..=high.floor() as usize {
        let label = match digits {
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            _ => format!("99.{} %", "9".repeat(digits - 2)),
        };
        ticks.push((digits as f64, label));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(ticks: &[f64]) -> Vec<f64> {
        ticks.iter().map(|tick| (tick * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn ticks_are_round_and_enclose() {
        assert_eq!(rounded(&linear(98_000.0, false)), [0.0, 20e3, 40e3, 60e3, 80e3, 100e3]);
        assert_eq!(rounded(&linear(0.0, false)), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(rounded(&linear(124.0, true)), [0.0, 25.0, 50.0, 75.0, 100.0, 125.0]);
        assert_eq!(rounded(&linear(2.0, true)), [0.0, 1.0, 2.0]);
        assert_eq!(rounded(&linear(12.0, true)), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(rounded(&logarithmic(0.38, 8360.0)), [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(rounded(&logarithmic(3.0, 180.0)), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(rounded(&logarithmic(0.0, 0.0)), [0.1, 0.2, 0.5, 1.0]);
        assert_eq!(time(0.0, 24.0).iter().map(|tick| tick.0).collect::<Vec<_>>(), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(time(0.0, 7200.0)[1].1, "0:20 h");
        assert_eq!(time(0.0, 600.0)[1].1, "2:00");
    }

    #[test]
    fn percentiles_spread_towards_the_end() {
        assert!((nines(99.9, 1_000_000) - 3.0).abs() < 1e-9);
        assert!((nines(100.0, 1_000_000) - 6.0).abs() < 1e-9);
        assert!((nines(99.999_999, 1000) - 3.0).abs() < 1e-9);
        let labels: Vec<String> = percentiles(4.0).into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn ticks_are_written_short() {
        let table = [
            (Quantity::Rate, 250_000.0, "250,000"),
            (Quantity::Rate, 12_500_000.0, "12.5 M"),
            (Quantity::Latency, 0.2, "0.2 µs"),
            (Quantity::Latency, 2500.0, "2.5 ms"),
            (Quantity::Bytes, 4e8, "400 MB"),
            (Quantity::Number, 0.25, "0.25"),
        ];
        for (quantity, value, want) in table {
            assert_eq!(quantity.tick(value), want);
        }
    }
}
