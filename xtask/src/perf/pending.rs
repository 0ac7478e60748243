//! Commands of few bytes, or of very many ids, about entries of a stream that are pending, and what others wait for.

use super::bench::Bench;
use super::bounded::{WAIT_MS_MAX, waits_rows};
use super::ceiling::{Ceiling, Rows};
use super::others::{longest_read, meanwhile};
use super::redis::start_basalt;
use super::wire::Connection;
use std::time::Instant;

/// Entries that are written or delivered at once.
const STEP: u64 = 10_000;

/// The id of an entry of the stream.
fn id(n: u64) -> String {
    format!("{}-1", n + 1)
}

/// A stream whose first `entries` are pending for the consumer `first` of `group`.
pub fn load(connection: &mut Connection, key: &str, entries: u64) -> Result<(), String> {
    for from in (0..entries).step_by(STEP as usize) {
        let ids: Vec<String> = (from..entries.min(from + STEP)).map(id).collect();
        connection.ask_all(ids.iter().map(|id| vec!["XADD", key, id, "field", "value"]))?;
    }
    connection.ask_all([vec!["XGROUP", "CREATE", key, "group", "0"]])?;
    let count = STEP.to_string();
    for _ in (0..entries).step_by(STEP as usize) {
        connection.ask_all([vec!["XREADGROUP", "GROUP", "group", "first", "COUNT", &count, "STREAMS", key, ">"]])?;
    }
    Ok(())
}

/// The commands, with their names, about a stream of three times `many` such entries.
pub fn commands(key: &str, many: u64) -> Vec<(&'static str, Vec<String>)> {
    let words = |text: &str| -> Vec<String> { text.replace("KEY", key).split(' ').map(str::to_owned).collect() };
    let of_many = |text: &str| words(text).into_iter().chain((0..many).map(id)).collect();
    vec![
        ("XAUTOCLAIM", words("XAUTOCLAIM KEY group other 0 0 COUNT 16384")),
        ("XCLAIM", of_many("XCLAIM KEY group other 0")),
        ("XACK", of_many("XACK KEY group")),
        ("XGROUP DELCONSUMER", words("XGROUP DELCONSUMER KEY group first")),
    ]
}

/// What clients of other shards of the same event loop wait for meanwhile, and who reads of the same shard.
pub fn measure(bench: &Bench) -> Result<Vec<Ceiling>, String> {
    let many = bench.options.scale(100_000, 5_000);
    let server = start_basalt(bench, &["--durability", "nosync", "--memory", "1G", "--workers", "1"])?;
    let key = "{b}stream";
    let mut connection = Connection::open(server.port)?;
    load(&mut connection, key, 3 * many)?;
    connection.set("{b}small", "value")?;
    server.wait_until_quiet()?;
    let mut rows = Rows::default();
    for (name, words) in commands(key, many) {
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let begun = Instant::now();
        let (read_ms, waits) = meanwhile(server.port, || {
            longest_read(server.port, "{b}small", || {
                connection.ask(&args)?;
                connection.answer().map(|_| ())
            })
        })?;
        eprintln!("{name}: {:.3} s", begun.elapsed().as_secs_f64());
        rows.extend(waits_rows(&format!("{name} ({many})"), waits))?;
        rows.push(Ceiling::new(format!("… reading of the same shard, longest: {name}"), "ms", WAIT_MS_MAX, read_ms))?;
    }
    server.stop().map(|()| rows.all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_about_the_stream() {
        for (name, words) in commands("{b}stream", 3) {
            assert!(words.join(" ").starts_with(&format!("{name} {{b}}stream group")), "{words:?}");
        }
        assert!(commands("s", 3)[2].1.ends_with(&["1-1".to_owned(), "2-1".to_owned(), "3-1".to_owned()]));
    }
}
