//! YCSB's core workload, bit for bit: properties, keys, choosers, values. No clock, no socket.

mod acknowledged;
mod builtin;
mod chooser;
mod collection;
mod compression;
mod config;
mod integrity;
mod java;
mod key;
mod length;
mod mix;
mod outstanding;
mod plan;
mod properties;
mod range;
mod short_scans;
mod update_log;
mod value;
mod zipfian;

pub use acknowledged::{AcknowledgedCounter, WindowFull};
pub use builtin::builtin;
pub use chooser::KeyChooser;
pub use collection::{Collection, element_number, write_element};
pub use compression::Compression;
pub use config::{Config, Distribution, RecordForm};
pub use integrity::Verdict;
pub use key::{KeyForm, KeyNamer, KeyOrder, fnv};
pub use length::{Histogram, Lengths};
pub use mix::{Mix, OpKind};
pub use outstanding::Outstanding;
pub use plan::{Fields, Operation, Source, Task, Workload};
pub use properties::{BadProperty, Form, KNOWN, Known, Properties};
pub use range::RecordRange;
pub use short_scans::TooManyShort;
pub use value::{Cell, ValueForm, key_hash};
pub use zipfian::{THETA, Zipfian, zeta};
