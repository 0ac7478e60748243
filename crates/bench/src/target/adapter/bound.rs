//! The largest records that a system behind an adapter can be asked for: a request with one, and the answer, are one frame.

use vocab::limits::ADAPTER_FRAME_BYTES_MAX;

use crate::workload::{Compression, Config};

/// What a frame has beside a record's fields, in bytes: its heads, the request's name and the key.
const HEAD_BYTES: u64 = 64 * 1024;
/// What a field has beside its name and value, in bytes: their lengths, as requests, replies and packed records have them, and
/// the digits of its number.
const FIELD_HEAD_BYTES: u64 = 128;
/// No method makes a value that it cannot compress longer by more than one byte in so many, and a head.
const INCOMPRESSIBLE_GROWTH: u64 = 64;

/// Whether every record of `config` fits a frame.
///
/// # Errors
/// It does not, and how large it may be.
pub(crate) fn check_frame(config: &Config) -> Result<(), String> {
    let value = config.field_length.max();
    let growth = if config.compression == Compression::None { 0 } else { value / INCOMPRESSIBLE_GROWTH };
    let heads = config.field_name_prefix.len() as u64 + FIELD_HEAD_BYTES;
    let field = value.saturating_add(growth).saturating_add(heads);
    let record = field.saturating_mul(u64::from(config.field_count)).saturating_add(HEAD_BYTES);
    let most = ADAPTER_FRAME_BYTES_MAX as u64;
    if record <= most {
        return Ok(());
    }
    Err(format!(
        "a request with a record of {} fields of up to {value} bytes has up to {record} bytes, and an adapter takes {most}: \
         make fieldcount or fieldlength smaller",
        config.field_count
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::transport::ArgumentSink as _;
    use super::super::wire;
    use super::*;
    use crate::workload::{Operation, Properties, Task, Workload, key_hash};
    use client::Access;

    fn config(assignments: &str) -> Config {
        let mut properties = Properties::new();
        properties.set("recordcount", "10");
        assignments.split_whitespace().for_each(|assignment| properties.add_assignment(assignment).unwrap());
        Config::read(&properties).unwrap()
    }

    #[test]
    fn records_beyond_a_frame_are_refused() {
        for (assignments, fits) in [
            ("", true),
            ("fieldcount=1 fieldlength=268000000", true),
            ("fieldcount=1 fieldlength=300000000", false),
            ("fieldcount=300 fieldlength=1000000", false),
            ("fieldcount=1 fieldlength=268000000 basalt.compress=zstd", false),
            ("fieldcount=1 fieldlength=300000000 fieldlengthdistribution=uniform", false),
        ] {
            let found = check_frame(&config(assignments));
            assert_eq!(found.is_ok(), fits, "{assignments}: {found:?}");
        }
    }

    /// What is said to fit has room for what is sent.
    #[test]
    fn the_heads_of_a_request_are_counted() {
        for assignments in
            ["fieldcount=1 fieldlength=0", "fieldcount=1000 fieldlength=3 fieldnameprefix=a-long-prefix-of-names"]
        {
            let workload = Workload::plan(config(assignments), Task::Load).unwrap();
            let operation = Operation { key: vec![b'k'; vocab::limits::KEY_BYTES_MAX], ..Operation::default() };
            let mut out = Vec::new();
            let start = wire::begin_request(&mut out, 1, Access::Write, 2);
            let mut request = wire::RequestWriter(&mut out);
            request.arg(b"HSET");
            request.arg(&operation.key);
            for (field, name) in (0..).zip(workload.field_names()) {
                let mut value = Vec::new();
                workload.write_value(&operation, key_hash(&operation.key), field, &mut value);
                request.arg(name);
                request.arg(&value);
            }
            wire::end_frame(&mut out, start);
            let fields = u64::from(workload.config.field_count);
            let values = fields * (workload.config.field_length.max() + FIELD_HEAD_BYTES);
            assert!(out.len() as u64 <= values + HEAD_BYTES, "{assignments}: {}", out.len());
        }
    }
}
