//! Latency against offered load: the rates in order, up to the first that is too much.

use super::options::OfferedRate;
use crate::figure;
use crate::model::Trial;

/// The curve is flat as long as p99 is at most so many times what it is at the lowest rate.
const FLAT: f64 = 2.0;

/// The rates that are to be offered, ascending, each once.
pub(super) fn rates(asked: &[OfferedRate], closed_per_s: Option<f64>) -> Vec<f64> {
    let rate = |asked: &OfferedRate| match asked {
        OfferedRate::PerSecond(rate) => Some(*rate),
        OfferedRate::Share(share) => closed_per_s.map(|closed| (closed * share).max(1.0)),
    };
    let mut rates: Vec<f64> = asked.iter().filter_map(rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// The highest rate before the knee, the lowest behind it, and a sentence.
pub(super) fn knee(trials: &[Trial]) -> (Option<f64>, Option<f64>, String) {
    let Some(first) = trials.first() else { return (None, None, "Nothing was measured.".to_owned()) };
    let behind = |one: &&Trial| !one.holds || one.p99_us > first.p99_us * FLAT;
    let beyond = trials.iter().find(behind);
    let below = trials.iter().take_while(|one| !behind(one)).last();
    let rate = |one: &Trial| format!("{}/s", figure::rate(one.offered_per_s));
    let text = match (below, beyond) {
        (Some(below), Some(beyond)) => format!(
            "Flat up to {} (p99 {}, {} at the lowest rate); the knee is between there and {}, where {}.",
            rate(below),
            figure::latency(below.p99_us),
            figure::latency(first.p99_us),
            rate(beyond),
            if beyond.holds {
                format!("p99 is {}", figure::latency(beyond.p99_us))
            } else {
                format!("it {}", beyond.why)
            }
        ),
        (Some(below), None) => {
            format!("Flat up to {}, the highest rate that was offered: there is no knee in sight.", rate(below))
        }
        (None, _) => format!("Already {} is too much: it {}.", rate(first), first.why),
    };
    (below.map(|one| one.offered_per_s), beyond.map(|one| one.offered_per_s), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(offered_per_s: f64, p99_us: f64, holds: bool) -> Trial {
        let why = if holds { "keeps up" } else { "fell behind" }.to_owned();
        Trial { offered_per_s, p99_us, holds, why, ..Trial::default() }
    }

    #[test]
    fn the_knee_is_where_latency_doubles_or_the_store_falls_behind() {
        let curve = [tried(1e3, 500.0, true), tried(2e3, 600.0, true), tried(4e3, 1500.0, true)];
        let (below, beyond, text) = knee(&curve);
        assert_eq!((below, beyond), (Some(2e3), Some(4e3)), "{text}");
        assert!(text.contains("p99 is 1.50 ms"), "{text}");
        assert_eq!(knee(&curve[..2]).1, None);
        assert_eq!(knee(&[tried(1e3, 500.0, false)]).0, None);
        let behind = knee(&[tried(1e3, 500.0, true), tried(2e3, 600.0, false)]).2;
        assert!(behind.contains("it fell behind"), "{behind}");
    }

    #[test]
    fn rates_are_in_order_and_shares_are_of_the_closed_loop() {
        let asked: Vec<OfferedRate> =
            ["50%", "100", "7.5", "100", "10%"].into_iter().filter_map(|text| text.parse().ok()).collect();
        assert_eq!(rates(&asked, Some(1000.0)), [7.5, 100.0, 500.0]);
        assert!(["0", "-5%", "2e9"].iter().all(|text| text.parse::<OfferedRate>().is_err()));
    }
}
