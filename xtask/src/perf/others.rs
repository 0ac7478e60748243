//! What other clients wait for while one client keeps a server busy.

use super::wire::Connection;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_micros(200);

/// What clients waited for, in ms.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// The 99th of a hundred.
    pub p99_ms: f64,
    /// The 999th of a thousand.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// Runs `busy` while a client sets and another gets small values: what `busy` answers, and what these waited for. `busy` has to write
/// to other shards than that of `{other}`: entries of one shard are applied one behind the other, however long one takes.
pub fn meanwhile<T: Send>(port: u16, busy: impl FnOnce() -> Result<T, String> + Send) -> Result<(T, Waits), String> {
    let stop = AtomicBool::new(false);
    let mut first = Connection::open(port)?;
    first.set("{other}small", "value")?;
    std::thread::scope(|scope| {
        let getter = scope.spawn(|| waits(port, &stop, |client| client.get("{other}small").map(|_| ())));
        let setter = scope.spawn(|| waits(port, &stop, |client| client.set("{other}written", "value")));
        let done = busy();
        stop.store(true, Ordering::Release);
        let mut all = joined(getter)??;
        all.extend(joined(setter)??);
        all.sort_unstable();
        let at = |share: f64| all.get((all.len() as f64 * share) as usize).or(all.last()).copied().unwrap_or_default();
        let ms = |wait: Duration| wait.as_secs_f64() * 1000.0;
        Ok((done?, Waits { p99_ms: ms(at(0.99)), p999_ms: ms(at(0.999)), max_ms: ms(at(1.0)) }))
    })
}

/// Runs `busy` while a client gets a small value of that key: the longest that it waited, in ms.
pub fn longest_read(port: u16, key: &str, busy: impl FnOnce() -> Result<(), String> + Send) -> Result<f64, String> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let getter = scope.spawn(|| waits(port, &stop, |client| client.get(key).map(|_| ())));
        let done = busy();
        stop.store(true, Ordering::Release);
        let longest = joined(getter)??.into_iter().max().unwrap_or_default();
        done.map(|()| longest.as_secs_f64() * 1000.0)
    })
}

fn waits(
    port: u16,
    stop: &AtomicBool,
    mut request: impl FnMut(&mut Connection) -> Result<(), String>,
) -> Result<Vec<Duration>, String> {
    let mut client = Connection::open(port)?;
    let mut all = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let begun = Instant::now();
        request(&mut client)?;
        all.push(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(all)
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> Result<T, String> {
    thread.join().map_err(|_| "a client that was to wait has panicked".to_owned())
}
