//! The properties of the core workload, read and checked.

use std::str::FromStr;

use super::collection::Collection;
use super::compression::Compression;
use super::key::{KeyForm, KeyNamer, KeyOrder};
use super::length::{Histogram, Lengths};
use super::mix::{Mix, OpKind};
use super::properties::{BadProperty, Properties, bad};
use super::range::RecordRange;
use super::value::ValueForm;
use super::zipfian::Zipfian;

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each alike.
    Uniform,
    /// Popular ones, scattered.
    Zipfian,
    /// The newest first.
    Latest,
    /// In turn.
    Sequential,
    /// A part gets most.
    Hotspot {
        /// Share of the records that is hot.
        data: f64,
        /// Share of the operations that they get.
        operations: f64,
    },
    /// The newest first, by an exponential law.
    Exponential {
        /// Per cent of the operations…
        percentile: f64,
        /// …that reach this share of the records.
        fraction: f64,
    },
}

impl Distribution {
    /// As the property has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
            Self::Sequential => "sequential",
            Self::Hotspot { .. } => "hotspot",
            Self::Exponential { .. } => "exponential",
        }
    }
}

/// How a record is kept in a store of the Redis kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordForm {
    /// One hash a record, one hash field a field.
    Hash,
    /// One string a record, its fields packed.
    String,
    /// One collection a record, its fields elements.
    Collection(Collection),
}

/// The core workload's parameters.
#[derive(Clone, Debug)]
pub struct Config {
    /// Records of the whole store, of which this process may have a part: see [`Config::range`].
    pub record_count: u64,
    /// Operations of a run; 0 = until the time is over.
    pub operation_count: u64,
    /// Fields of a record.
    pub field_count: u32,
    /// How long a field is.
    pub field_length: Lengths,
    /// What stands before a field's number.
    pub field_name_prefix: String,
    /// A read asks for all fields.
    pub read_all_fields: bool,
    /// An update writes all fields.
    pub write_all_fields: bool,
    /// What values look like.
    pub values: ValueForm,
    /// How the client compresses every value.
    pub compression: Compression,
    /// The operations of a run.
    pub mix: Mix,
    /// The records that they are about.
    pub distribution: Distribution,
    /// How long a scan is.
    pub scan_length: Lengths,
    /// Names records.
    pub keys: KeyNamer,
    /// First key number of this process.
    pub insert_start: u64,
    /// Key numbers of this process, when given.
    pub insert_count: Option<u64>,
    /// Attempts of a failed load insert beyond the first.
    pub insert_retries: u32,
    /// Seconds between them.
    pub insert_retry_interval_s: f64,
    /// How records are kept.
    pub record: RecordForm,
    /// Updates compare the version they read.
    pub compare_and_set: bool,
    /// An update whose connection died is made again: it writes the same bytes.
    pub repeats_updates: bool,
    /// Every process has its own hot keys.
    pub own_hot_keys: bool,
    /// Which process this is.
    pub process: u64,
    /// This process stands in for all of them: it loads all records, and draws whose hot keys it asks for.
    pub plays_all: bool,
    /// How many there are.
    pub processes: u64,
    /// Percentiles of latencies that are asked for: reports know them exactly.
    pub percentiles: Vec<f64>,
}

/// Most fields of a record.
const FIELDS_MAX: u64 = vocab::limits::ARGUMENTS_MAX as u64 / 2;
/// Most bytes of all fields of a record.
const RECORD_BYTES_MAX: u64 = vocab::limits::REPLY_BULK_BYTES_MAX as u64;

/// Reads typed properties.
struct Reader<'a>(&'a Properties);

impl Reader<'_> {
    fn number<T: FromStr>(&self, name: &str) -> Result<T, BadProperty> {
        let text = self.0.get(name);
        text.parse().map_err(|_| bad(name, format!("`{text}` is not a number that it can be")))
    }

    /// Numbers with commas between them.
    fn numbers(&self, name: &str) -> Result<Vec<f64>, BadProperty> {
        let text = self.0.get(name);
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse::<f64>()).collect();
        numbers.map_err(|_| bad(name, format!("`{text}` is no list of numbers")))
    }

    /// `true` in any case; the property has been checked to be that or `false`.
    fn truth(&self, name: &str) -> bool {
        self.0.get(name).eq_ignore_ascii_case("true")
    }

    fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, BadProperty> {
        let text = self.0.get(name);
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|&(word, _)| word).collect();
            bad(name, format!("`{text}` is none of {}", words.join(", ")))
        })
    }

    fn share(&self, name: &str) -> Result<f64, BadProperty> {
        let value: f64 = self.number(name)?;
        if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(bad(name, format!("{value} is not within 0 and 1"))) }
    }

    fn bounds(&self, low: &str, high: &str) -> Result<(u64, u64), BadProperty> {
        let (min, max): (u64, u64) = (self.number(low)?, self.number(high)?);
        if min <= max { Ok((min, max)) } else { Err(bad(high, format!("{max} is below {low} {min}"))) }
    }
}

impl Config {
    /// Reads the core workload's properties.
    ///
    /// # Errors
    /// The first property that cannot be.
    pub fn read(properties: &Properties) -> Result<Self, BadProperty> {
        properties.check()?;
        let reader = Reader(properties);
        check_record(&reader)?;
        let field_length = field_length(&reader)?;
        let compare_and_set = reader.choice("basalt.update", &[("write", false), ("cas", true)])?;
        let plays_all = properties.get("basalt.process") == "all";
        let config = Self {
            record_count: reader.number("recordcount")?,
            operation_count: reader.number("operationcount")?,
            field_count: reader.number("fieldcount")?,
            values: values(&reader, &field_length)?,
            field_length,
            field_name_prefix: properties.text("fieldnameprefix").to_owned(),
            read_all_fields: reader.truth("readallfields"),
            write_all_fields: reader.truth("writeallfields"),
            compression: reader.choice("basalt.compress", &Compression::ALL.map(|method| (method.name(), method)))?,
            mix: mix(&reader)?,
            distribution: distribution(&reader)?,
            scan_length: scan_length(&reader)?,
            keys: keys(&reader)?,
            insert_start: reader.number("insertstart")?,
            insert_count: properties.given("insertcount").map(|_| reader.number("insertcount")).transpose()?,
            insert_retries: reader.number("core_workload_insertion_retry_limit")?,
            insert_retry_interval_s: reader.number("core_workload_insertion_retry_interval")?,
            record: record(&reader, compare_and_set)?,
            compare_and_set,
            repeats_updates: reader.choice("basalt.retry", &[("safe", false), ("updates", true)])?,
            own_hot_keys: reader.choice("basalt.zipfian", &[("shared", false), ("process", true)])?,
            process: if plays_all { 0 } else { reader.number("basalt.process")? },
            plays_all,
            processes: reader.number("basalt.processes")?,
            percentiles: reader.numbers("hdrhistogram.percentiles")?,
        };
        config.check()
    }

    fn check(self) -> Result<Self, BadProperty> {
        /// Key numbers stay below this, so that sums of them never overflow and all are positive as Java's long.
        const NUMBERS_MAX: u64 = 1 << 62;
        for (name, value) in [
            ("recordcount", self.record_count),
            ("operationcount", self.operation_count),
            ("insertstart", self.insert_start),
            ("insertcount", self.insert_count.unwrap_or(0)),
        ] {
            if value > NUMBERS_MAX {
                return Err(bad(name, format!("{value} is above 2^62")));
            }
        }
        if self.field_count == 0 {
            return Err(bad("fieldcount", "a record has at least one field"));
        }
        if !(0.0..=1e9).contains(&self.insert_retry_interval_s) {
            return Err(bad("core_workload_insertion_retry_interval", "not a number of seconds"));
        }
        /// Each process that is stood in for has a salt of its own.
        const PROCESSES_MAX: u64 = 1 << 16;
        if self.processes > PROCESSES_MAX {
            return Err(bad("basalt.processes", format!("{} is above {PROCESSES_MAX}", self.processes)));
        }
        if matches!(self.record, RecordForm::Collection(_)) {
            self.check_collection()?;
        }
        if self.processes == 0 || self.process >= self.processes {
            return Err(bad("basalt.process", format!("{} is not below {}", self.process, self.processes)));
        }
        Ok(self)
    }

    /// Elements are of one length, written by this laboratory, and never inserted one by one by a run.
    fn check_collection(&self) -> Result<(), BadProperty> {
        if self.field_length.constant().is_none() {
            return Err(bad("fieldlengthdistribution", "elements of collections have one length: constant"));
        }
        if self.compression != Compression::None || self.values != ValueForm::Ycsb {
            return Err(bad("basalt.record", "elements of collections are neither compressed nor of another form"));
        }
        Ok(())
    }

    /// The records that the processes of a run load and ask for.
    ///
    /// # Errors
    /// The properties name no range of the store's records.
    pub fn range(&self) -> Result<RecordRange, BadProperty> {
        RecordRange::new(self.record_count, self.insert_start, self.insert_count)
    }

    /// The mean size of a record's fields together.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        (self.field_length.mean() * f64::from(self.field_count)).round() as u64
    }
}

/// A record is made in memory, and no store of a usual kind takes a larger one.
fn check_record(reader: &Reader<'_>) -> Result<(), BadProperty> {
    let (fields, field_bytes) = (reader.number::<u64>("fieldcount")?, reader.number::<u64>("fieldlength")?);
    if fields > FIELDS_MAX {
        return Err(bad("fieldcount", format!("{fields} is above {FIELDS_MAX}")));
    }
    if fields.saturating_mul(field_bytes) > RECORD_BYTES_MAX {
        let text = format!(
            "{fields} fields of {field_bytes} bytes are more than the {RECORD_BYTES_MAX} bytes of the largest record"
        );
        return Err(bad("fieldlength", text));
    }
    Ok(())
}

fn field_length(reader: &Reader<'_>) -> Result<Lengths, BadProperty> {
    let name = "fieldlengthdistribution";
    match reader.0.get(name) {
        "constant" => Ok(Lengths::Constant(reader.number("fieldlength")?)),
        "uniform" => {
            let (min, max) = reader.bounds("minfieldlength", "fieldlength")?;
            Ok(Lengths::Uniform { min, max })
        }
        "zipfian" => {
            let (min, max) = reader.bounds("minfieldlength", "fieldlength")?;
            Ok(Lengths::Zipfian(Zipfian::new(min, max)))
        }
        "histogram" => {
            let file = reader.0.get("fieldlengthhistogram");
            let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
            let parsed = text.and_then(|text| Histogram::parse(&text));
            parsed.map(Lengths::Histogram).map_err(|problem| bad("fieldlengthhistogram", format!("{file}: {problem}")))
        }
        other => Err(bad(name, format!("`{other}` is none of constant, uniform, zipfian, histogram"))),
    }
}

fn values(reader: &Reader<'_>, length: &Lengths) -> Result<ValueForm, BadProperty> {
    let forms = [ValueForm::Ycsb, ValueForm::Incompressible, ValueForm::PageLike].map(|form| (form.name(), form));
    let form = reader.choice("basalt.values", &forms)?;
    if !reader.truth("dataintegrity") {
        return Ok(form);
    }
    if length.constant().is_none() {
        return Err(bad("dataintegrity", "needs fieldlengthdistribution=constant"));
    }
    Ok(ValueForm::Integrity)
}

fn mix(reader: &Reader<'_>) -> Result<Mix, BadProperty> {
    let weights = [
        (OpKind::Read, reader.number("readproportion")?),
        (OpKind::Update, reader.number("updateproportion")?),
        (OpKind::Insert, reader.number("insertproportion")?),
        (OpKind::Scan, reader.number("scanproportion")?),
        (OpKind::ReadModifyWrite, reader.number("readmodifywriteproportion")?),
    ];
    Mix::new(&weights).ok_or_else(|| bad("readproportion", "no operation has a weight above 0, or one is below 0"))
}

/// So much of what the exponential law draws must lie among the records: the rest costs the client time for nothing.
const EXPONENTIAL_KEPT_MIN: f64 = 0.01;

fn distribution(reader: &Reader<'_>) -> Result<Distribution, BadProperty> {
    let name = "requestdistribution";
    Ok(match reader.0.get(name) {
        "uniform" => Distribution::Uniform,
        "zipfian" => Distribution::Zipfian,
        "latest" => Distribution::Latest,
        "sequential" => Distribution::Sequential,
        "hotspot" => Distribution::Hotspot {
            data: reader.share("hotspotdatafraction")?,
            operations: reader.share("hotspotopnfraction")?,
        },
        "exponential" => {
            let percentile: f64 = reader.number("exponential.percentile")?;
            let fraction: f64 = reader.number("exponential.frac")?;
            if !(percentile > 0.0 && percentile < 100.0 && fraction > 0.0) {
                return Err(bad("exponential.percentile", "needs 0 < percentile < 100 and a fraction above 0"));
            }
            // What falls beyond the oldest record is drawn again.
            let kept = 1.0 - (1.0 - percentile / 100.0).powf(1.0 / fraction);
            if kept < EXPONENTIAL_KEPT_MIN {
                let problem = format!(
                    "with exponential.frac {fraction} only {:.2e} of what is drawn is a record: {EXPONENTIAL_KEPT_MIN} must be at least",
                    kept
                );
                return Err(bad("exponential.percentile", problem));
            }
            Distribution::Exponential { percentile, fraction }
        }
        other => {
            let words = "uniform, zipfian, latest, sequential, hotspot, exponential";
            return Err(bad(name, format!("`{other}` is none of {words}")));
        }
    })
}

fn scan_length(reader: &Reader<'_>) -> Result<Lengths, BadProperty> {
    let (min, max) = reader.bounds("minscanlength", "maxscanlength")?;
    if min == 0 {
        return Err(bad("minscanlength", "a scan asks for one record at least"));
    }
    if reader.choice("scanlengthdistribution", &[("uniform", false), ("zipfian", true)])? {
        Ok(Lengths::Zipfian(Zipfian::new(min, max)))
    } else {
        Ok(Lengths::Uniform { min, max })
    }
}

fn keys(reader: &Reader<'_>) -> Result<KeyNamer, BadProperty> {
    let zero_padding = reader.number("zeropadding")?;
    for (name, bytes) in [("zeropadding", zero_padding), ("keyprefix", reader.0.text("keyprefix").len())] {
        if bytes > vocab::limits::KEY_BYTES_MAX / 2 {
            return Err(bad(name, "the keys would be too long"));
        }
    }
    Ok(KeyNamer {
        order: reader.choice("insertorder", &[("hashed", KeyOrder::Hashed), ("ordered", KeyOrder::Ordered)])?,
        form: reader.choice("basalt.keys", &[("decimal", KeyForm::Decimal), ("base32", KeyForm::Base32)])?,
        zero_padding,
        prefix: reader.0.text("keyprefix").to_owned(),
    })
}

fn record(reader: &Reader<'_>, compare_and_set: bool) -> Result<RecordForm, BadProperty> {
    let name = "basalt.record";
    if reader.0.given(name).is_none() {
        return Ok(if compare_and_set { RecordForm::String } else { RecordForm::Hash });
    }
    let collections = Collection::NAMES.map(|(word, collection)| (word, RecordForm::Collection(collection)));
    let forms = [&[("hash", RecordForm::Hash), ("string", RecordForm::String)][..], &collections].concat();
    let form = reader.choice(name, &forms)?;
    if compare_and_set && form != RecordForm::String {
        return Err(bad(name, "basalt.update=cas sets a whole value by its version: it needs basalt.record=string"));
    }
    Ok(form)
}
