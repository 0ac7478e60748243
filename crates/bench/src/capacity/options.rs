//! The options of `bench model`.

use clap::{Args, ValueEnum};

/// What is to be predicted, and from what.
#[derive(Clone, Debug, Args)]
pub struct ModelOptions {
    /// Folders of runs, or folders of such folders
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Predict this published store, and print what was published beside it; may be repeated; all if no store is
    /// described
    #[arg(long, value_enum)]
    pub preset: Vec<Preset>,
    /// The store: nodes
    #[arg(long, requires = "records")]
    pub nodes: Option<u32>,
    /// Cores of each node
    #[arg(long, default_value_t = 16)]
    pub cores: u32,
    /// Records, such as 2e9
    #[arg(long, requires = "nodes")]
    pub records: Option<f64>,
    /// Bytes of a record with its key
    #[arg(long, default_value_t = 1102)]
    pub record_bytes: u32,
    /// Per cent of reads, of writes and, if there are any, of scans
    #[arg(long, default_value = "95/5", value_name = "READS/WRITES[/SCANS]")]
    pub mix: Mix,
    /// Rows of a scan
    #[arg(long, default_value_t = 50.5)]
    pub scan_rows: f64,
    /// Which records are asked for: any alike, or some more than others (zipfian, 0.99)
    #[arg(long, value_enum, default_value = "uniform")]
    pub requests: Requests,
    /// Memory of each node in GB: what does not fit comes from disk; without it, all comes from where it came in the runs
    #[arg(long)]
    pub memory_gb: Option<f64>,
    /// What each node's disks read, in reads a second; without it, they are not a bound
    #[arg(long)]
    pub disk_reads_per_s: Option<f64>,
    /// Copies of each record
    #[arg(long, default_value_t = 3)]
    pub rf: u32,
    /// How busy the cores may be, 0 to 1
    #[arg(long, default_value_t = 0.8)]
    pub utilisation: f64,
    /// How much faster a core is than those that were measured
    #[arg(long, default_value_t = 1.0)]
    pub core_speed: f64,
    /// Each node's network, in Gbit/s
    #[arg(long, default_value_t = 10.0)]
    pub network_gbit: f64,
    /// What each node's disk writes, in MB/s; without it, disks are not a bound
    #[arg(long)]
    pub disk_mb_per_s: Option<f64>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// A published store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Oracle NoSQL Database: 3 to 15 servers, up to 2 billion records, 95/5
    Oracle,
    /// YugabyteDB: 30 billion records on four nodes, load and reads
    Yugabyte,
    /// VoltDB: 3 and 12 cloud nodes, workloads A, B and E
    Voltdb,
    /// Oracle NoSQL Database on three servers with flash: workloads A, B and C, data in memory and up to 8 times larger
    Flash,
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Requests {
    /// Each alike.
    Uniform,
    /// The n-th most popular in proportion to n to the power of -0.99.
    Zipfian,
}

/// Shares of reads, writes and scans, which make 1 together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads of one record.
    pub reads: f64,
    /// Updates.
    pub writes: f64,
    /// Scans.
    pub scans: f64,
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
        let numbers: Option<Vec<f64>> = text.split('/').map(number).collect();
        let (reads, writes, scans) = match numbers.as_deref() {
            Some([reads, writes]) => (*reads, *writes, 0.0),
            Some([reads, writes, scans]) => (*reads, *writes, *scans),
            _ => return Err(format!("`{text}`: expected per cent of reads, writes and scans, such as 95/5 or 0/5/95")),
        };
        if (reads + writes + scans - 100.0).abs() > 1e-6 {
            return Err(format!("`{text}`: reads, writes and scans must make 100 together"));
        }
        Ok(Self { reads: reads / 100.0, writes: writes / 100.0, scans: scans / 100.0 })
    }
}

impl ModelOptions {
    /// Whether the numbers can be.
    pub(super) fn check(&self) -> Result<(), String> {
        let above = |name: &str, value: f64| {
            let right = value.is_finite() && value > 0.0;
            if right { Ok(()) } else { Err(format!("--{name} {value}: expected a number above 0")) }
        };
        above("nodes", f64::from(self.nodes.unwrap_or(1)))?;
        above("cores", f64::from(self.cores))?;
        above("records", self.records.unwrap_or(1.0))?;
        above("record-bytes", f64::from(self.record_bytes))?;
        above("rf", f64::from(self.rf))?;
        above("core-speed", self.core_speed)?;
        above("network-gbit", self.network_gbit)?;
        above("disk-mb-per-s", self.disk_mb_per_s.unwrap_or(1.0))?;
        above("scan-rows", self.scan_rows)?;
        above("memory-gb", self.memory_gb.unwrap_or(1.0))?;
        above("disk-reads-per-s", self.disk_reads_per_s.unwrap_or(1.0))?;
        above("utilisation", self.utilisation)?;
        if self.utilisation > 1.0 {
            return Err(format!("--utilisation {}: expected at most 1", self.utilisation));
        }
        Ok(())
    }
}
