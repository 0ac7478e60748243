//! One bar: what must be at least how many times what, and the pairs that were measured.

use super::progress;
use super::spread::Spread;
use serde_json::{Value, json};

/// One side's run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Operations a second.
    pub rate: f64,
    /// What the server took of the processors for one operation; none where client and server are one process.
    pub cpu_us_per_op: Option<f64>,
}

/// Two runs, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Basalt.
    pub ours: Sample,
    /// What it is held against.
    pub theirs: Sample,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.ours.rate / self.theirs.rate
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Bar {
    /// What is measured.
    pub what: String,
    /// What it is held against.
    pub against: String,
    /// The ratio that it should reach.
    pub at_least: f64,
    /// In the order in which they were measured.
    pub pairs: Vec<Pair>,
    /// What a reader must know besides: limits met, resources used.
    pub notes: Vec<String>,
}

impl Bar {
    /// What stands above such rows.
    pub const HEAD: &'static str =
        "| | bar | ratio | Basalt, 1/s | peer, 1/s | server CPU, µs an operation (Basalt; peer) | |\n|-|-|-|-|-|-|-|\n";

    /// A bar without its pairs.
    pub fn new(what: impl Into<String>, against: impl Into<String>, at_least: f64) -> Self {
        Self { what: what.into(), against: against.into(), at_least, pairs: Vec::new(), notes: Vec::new() }
    }

    /// Measures `runs` pairs: ours, theirs, ours, theirs…
    pub fn alternate(
        mut self,
        runs: usize,
        mut ours: impl FnMut() -> Result<Sample, String>,
        mut theirs: impl FnMut() -> Result<Sample, String>,
    ) -> Result<Self, String> {
        progress::row(&self.what);
        for run in 1..=runs {
            let pair = Pair { ours: ours()?, theirs: theirs()? };
            let (us, them) = (pair.ours.rate, pair.theirs.rate);
            eprintln!("{}, run {run} of {runs}: {us:.0}/s against {them:.0}/s: {:.2}", self.what, pair.ratio());
            self.pairs.push(pair);
            progress::step()?;
        }
        progress::print(Self::HEAD, &self.row());
        Ok(self)
    }

    /// Its row in Markdown.
    pub fn row(&self) -> String {
        let (ours, theirs) = self.rates().map_or_else(Default::default, |(ours, theirs)| (ours.rate(), theirs.rate()));
        let cpu = |time: Option<Spread>| time.map_or("–".into(), Spread::middle);
        let (our_cpu, their_cpu) = self.cpus();
        let verdict = if self.held() { "held" } else { "**missed**" };
        format!(
            "| {}; against {} | ≥ {:?} × | {} | {ours} | {theirs} | {}; {} | {verdict} |\n",
            self.what,
            self.against,
            self.at_least,
            self.ratios().map(Spread::ratio).unwrap_or_default(),
            cpu(our_cpu),
            cpu(their_cpu),
        )
    }

    /// The ratios of the pairs; none if nothing was measured.
    pub fn ratios(&self) -> Option<Spread> {
        Spread::of(self.pairs.iter().map(Pair::ratio))
    }

    /// Both sides' rates.
    pub fn rates(&self) -> Option<(Spread, Spread)> {
        let of = |side: fn(&Pair) -> Sample| Spread::of(self.pairs.iter().map(move |pair| side(pair).rate));
        Some((of(|pair| pair.ours)?, of(|pair| pair.theirs)?))
    }

    /// Both sides' processor time.
    pub fn cpus(&self) -> (Option<Spread>, Option<Spread>) {
        let of =
            |side: fn(&Pair) -> Sample| Spread::of(self.pairs.iter().filter_map(move |pair| side(pair).cpu_us_per_op));
        (of(|pair| pair.ours), of(|pair| pair.theirs))
    }

    /// Whether the median of the ratios reaches the bar.
    pub fn held(&self) -> bool {
        self.ratios().is_some_and(|ratios| ratios.median >= self.at_least)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let side = |sample: &Sample| json!({ "per_s": sample.rate, "server_cpu_us_per_op": sample.cpu_us_per_op });
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|pair| json!({ "basalt": side(&pair.ours), "peer": side(&pair.theirs), "ratio": pair.ratio() }))
            .collect();
        json!({
            "what": self.what,
            "against": self.against,
            "at_least": self.at_least,
            "held": self.held(),
            "ratio": self.ratios().map(Spread::json),
            "basalt_per_s": self.rates().map(|rates| rates.0.json()),
            "peer_per_s": self.rates().map(|rates| rates.1.json()),
            "pairs": pairs,
            "notes": self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Sample, Spread};

    #[test]
    fn a_row_says_all_of_it() {
        let sample = |rate| Ok(Sample { rate, cpu_us_per_op: Some(2.5) });
        let bar = Bar::new("GET", "redis-server", 1.0).alternate(1, || sample(1500.0), || sample(1000.0));
        let row = "| GET; against redis-server | ≥ 1.0 × | 1.50 (1.50–1.50) | 1,500 (1,500–1,500) | 1,000 (1,000–1,000) \
                   | 2.50; 2.50 | held |\n";
        assert_eq!(bar.expect("no side fails").row(), row);
    }

    #[test]
    fn sides_alternate_and_the_median_of_ratios_decides() {
        let order = std::cell::RefCell::new(String::new());
        let sample = |rate| Ok(Sample { rate, cpu_us_per_op: None });
        let mut rates = [90.0, 120.0, 100.0].into_iter();
        let ours = || {
            order.borrow_mut().push('A');
            sample(rates.next().expect("three runs"))
        };
        let theirs = || {
            order.borrow_mut().push('B');
            sample(100.0)
        };
        let bar = Bar::new("GET", "a peer", 1.0).alternate(3, ours, theirs).expect("no side fails");
        assert_eq!(*order.borrow(), "ABABAB");
        assert!(bar.held());
        assert_eq!(bar.ratios(), Some(Spread { median: 1.0, min: 0.9, max: 1.2 }));
        assert!(!Bar::new("GET", "a peer", 1.0).held(), "nothing measured holds nothing");
    }
}
