//! Uses a store of several nodes by redis-rs or fred, knowing the one on the port given.

mod with_fred;
mod with_redis;

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const KEYS: usize = 200;
const RESUMES_WITHIN: Duration = Duration::from_secs(5);

/// What every library can do.
trait Library {
    const NAME: &str;

    async fn set(&mut self, key: &str, value: &str) -> Result<(), String>;
    async fn get(&mut self, key: &str) -> Result<Option<String>, String>;
    /// From any replica.
    async fn get_from_any(&mut self, key: &str) -> Result<Option<String>, String>;
    /// The keys of this program, and whatever else the library has.
    async fn others(&mut self) -> Result<Vec<String>, String>;
}

fn expect<T: Debug + PartialEq>(what: &str, found: T, wanted: T) {
    if found != wanted {
        eprintln!("{what}: {found:?} instead of {wanted:?}");
        std::process::exit(1);
    }
}

fn of(key: &str) -> String {
    format!("of {key}")
}

async fn commands<L: Library>(library: &mut L) {
    let mut keys: Vec<String> = (0..KEYS).map(|n| format!("{}:key:{n}", L::NAME)).collect();
    for key in &keys {
        expect("SET", library.set(key, &of(key)).await, Ok(()));
    }
    for key in &keys {
        expect("GET", library.get(key).await, Ok(Some(of(key))));
    }
    keys.sort();
    let mut found = library.others().await;
    if let Ok(found) = &mut found {
        found.sort();
        found.dedup();
    }
    expect("the keys of SCAN", found, Ok(keys));
}

async fn replicas<L: Library>(library: &mut L, keys: impl Iterator<Item = String>) {
    let deadline = Instant::now() + RESUMES_WITHIN;
    for key in keys {
        // Another replica each time, and each is a little behind.
        let mut found = library.get_from_any(&key).await;
        while found != Ok(Some(of(&key))) && Instant::now() < deadline {
            found = library.get_from_any(&key).await;
        }
        expect("GET from any", found, Ok(Some(of(&key))));
    }
}

async fn write<L: Library>(library: &mut L, end: &Path) {
    println!("WRITING");
    let (mut written, mut failures, mut longest) = (0, 0, Duration::ZERO);
    while !end.exists() {
        let key = format!("{}:written:{written}", L::NAME);
        let start = Instant::now();
        while let Err(error) = library.set(&key, &of(&key)).await {
            failures += 1;
            expect(&format!("SET in time ({error})"), start.elapsed() < RESUMES_WITHIN, true);
            sleep(Duration::from_millis(50)).await;
        }
        longest = longest.max(start.elapsed());
        written += 1;
        sleep(Duration::from_millis(3)).await;
    }
    expect(&format!("writes in time (slowest {longest:?})"), longest < RESUMES_WITHIN, true);
    for key in (0..written).map(|n| format!("{}:written:{n}", L::NAME)) {
        expect("an acknowledged write", library.get(&key).await, Ok(Some(of(&key))));
    }
    println!("{written} writes, the slowest in {longest:.3?}, {failures} tried again");
}

async fn run<L: Library>(mut library: L, what: &str) {
    if what == "FOLLOWERS" {
        let keys = (0..30).map(|n| format!("{{{}}}{n}", L::NAME));
        for key in keys.clone() {
            expect("SET", library.set(&key, &of(&key)).await, Ok(()));
        }
        replicas(&mut library, keys).await;
    } else {
        commands(&mut library).await;
        replicas(&mut library, (0..KEYS).map(|n| format!("{}:key:{n}", L::NAME))).await;
        write(&mut library, Path::new(what)).await;
    }
    println!("OK");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, port, what] = &arguments[..] else { panic!("programs LIBRARY PORT FILE") };
    match name.as_str() {
        "redis-rs" => run(with_redis::RedisRs::connect(port).await, what).await,
        "fred" => run(with_fred::Fred::connect(port).await, what).await,
        _ => panic!("no such library: {name}"),
    }
}
