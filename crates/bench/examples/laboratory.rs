//! The laboratory without the store that `basalt bench` brings along: for profiles of the client alone.
//!
//! ```sh
//! cargo build --release -p basalt-bench --example laboratory
//! target/release/examples/laboratory noop-server --nodes 3 --verifiable &
//! target/release/examples/laboratory run --target redis://127.0.0.1:7999 -P workloadc -p recordcount=100000 \
//!     --read-from any --clients 64 --threads 1 --duration 10s
//! ```

use std::io;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bench::cli::BenchOptions;
use bench::driver::EventLog;
use bench::program::Program;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    bench: BenchOptions,
}

fn main() -> ExitCode {
    let program = Program {
        version: env!("CARGO_PKG_VERSION"),
        commit: None,
        open_store: &|_, _| Err(io::Error::new(io::ErrorKind::Unsupported, "this program has no store of its own")),
        stores: &bench::suite_stores::NoStores,
        stop: &AtomicBool::new(false),
        events: EventLog::default(),
    };
    bench::cli::run(&Options::parse().bench, &program)
}
