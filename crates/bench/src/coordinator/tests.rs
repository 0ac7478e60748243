#![allow(clippy::unwrap_used)]
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::handshake::{answer, dial};
use crate::agent::{FrameReader, accept};
use crate::cli::RunOptions;
use crate::driver::EventLog;
use crate::model::RunOutcome;
use crate::phase::setup::Measured;
use crate::program::Program;
use crate::single::measured_by;
use crate::suite_stores::NoStores;
use crate::target::{NoopServer, NoopShape};
use crate::test_options::Given;
use crate::trouble::Trouble;
use crate::workload::Task;

/// Longer than any test is waited for: a run of it that ends at all has ended early.
const ENDLESS: &str = "1h";

/// Ends the agents when a test is over, however it ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn measured_with(agents: &[String], task: Task, line: &str) -> Result<Measured, Trouble> {
    let agents = agents.join(",");
    let words = ["run", "--quiet", "--agents", &agents].into_iter().chain(line.split_whitespace());
    let options = Given::<RunOptions>::by(words);
    let program = Program {
        version: "1",
        commit: None,
        open_store: &|_, _| Err(std::io::Error::other("no store")),
        stores: &NoStores,
        stop: &AtomicBool::new(false),
        events: EventLog::default(),
    };
    measured_by("test", task, &options.phase, &options.loader, &program)
}

/// Runs `then` with so many agents, and the address of a server that stores nothing.
fn with_agents(count: usize, then: impl FnOnce(&[String], &str)) {
    let shape = NoopShape { fields: 10, field_bytes: 100, value_bytes: 1000, verifiable: true };
    let server = NoopServer::start_nodes(0, 1, shape).unwrap().remove(0);
    let target = format!("redis://{}", server.address());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        let agents: Vec<String> = (0..count)
            .map(|_| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                listener.set_nonblocking(true).unwrap();
                let address = listener.local_addr().unwrap().to_string();
                let stop = &stop;
                scope.spawn(move || accept(&listener, b"", "1", stop));
                address
            })
            .collect();
        then(&agents, &target);
    });
}

#[test]
fn several_agents_make_one_run() {
    with_agents(3, |agents, target| {
        let line = format!(
            "--target {target} -P workloadc -p recordcount=500 -p operationcount=3000 --clients 7 --warm-up 100"
        );
        let Measured { report, .. } = measured_with(agents, Task::Run, &line).unwrap();
        crate::model::validate(&report).unwrap();
        assert_eq!(report.outcome, RunOutcome::Completed, "{:?}", report.notes);
        let phase = &report.phases[0];
        assert_eq!((phase.operations, phase.agents.len()), (3000, 3));
        assert_eq!(phase.agents.iter().map(|agent| agent.operations).collect::<Vec<_>>(), [1000; 3]);
        let read = &phase.ops[0];
        assert_eq!((read.op.as_str(), read.latency.measured.count, read.verified), ("READ", 3000, 3000));
        assert_eq!((read.verification_failures, phase.error_count()), (0, 0));
        assert_eq!(report.configuration.threads, phase.agents.iter().map(|agent| agent.threads).sum::<u32>());
        for agent in &phase.agents {
            // One machine has one clock: what is measured is an error, which is within the round trip.
            assert!(agent.clock_offset_us.abs() <= agent.round_trip_us, "{agent:?}");
            assert!(agent.clock_drift_us.is_some() && agent.lost.is_none() && agent.busy_share.is_some(), "{agent:?}");
        }
    });
}

#[test]
fn a_load_is_split_and_agents_serve_again() {
    with_agents(2, |agents, target| {
        let line = format!("--target {target} -P workloada -p recordcount=1001 --clients 4 --threads 1");
        let Measured { report, .. } = measured_with(agents, Task::Load, &line).unwrap();
        assert_eq!(report.outcome, RunOutcome::Completed, "{:?}", report.notes);
        let counts: Vec<u64> = report.phases[0].agents.iter().map(|agent| agent.operations).collect();
        assert_eq!((report.phases[0].operations, counts.iter().sum::<u64>()), (1001, 1001));
        assert!(counts.contains(&500) && counts.contains(&501), "{counts:?}");
        // A part of the keys is split as well.
        let part = format!("{line} -p insertstart=100 -p insertcount=51");
        let Measured { report, .. } = measured_with(agents, Task::Load, &part).unwrap();
        assert_eq!(report.phases[0].operations, 51);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    with_agents(2, |agents, target| {
        for (line, why) in [
            (
                "--target embedded --data d -P workloadc -p recordcount=10 --duration 1s --clients 2",
                "belongs to one process",
            ),
            ("--target redis://127.0.0.1:1 -P workloadc -p recordcount=10 --duration 1s --clients 1", "need as many"),
        ] {
            match measured_with(agents, Task::Run, line) {
                Err(Trouble::Usage(said)) => assert!(said.contains(why), "{said}"),
                _ => panic!("{line} was done"),
            }
        }
        let line = format!("--target {target} -P workloadc -p recordcount=10 --duration 1s --clients 2");
        let gone = measured_with(&["127.0.0.1:1".to_owned()], Task::Run, &line);
        let Err(Trouble::Failed(error)) = gone else { panic!("an agent answered") };
        assert!(error.to_string().contains("agent 127.0.0.1:1"), "{error}");
    });
}

#[test]
fn an_agent_that_dies_fails_the_run_and_is_named() {
    with_agents(1, |agents, target| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mortal = listener.local_addr().unwrap().to_string();
        let dies = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = FrameReader::default();
            answer(&mut stream, &mut reader, b"", "1").unwrap();
            // It tells its time, and is gone when the job comes.
            let epoch = std::time::Instant::now();
            while let Some(crate::agent::ToAgent::Ping(token)) = reader.next(&mut stream, 1 << 20).unwrap() {
                let at_ns = epoch.elapsed().as_nanos() as u64;
                let pong = crate::agent::FromAgent::Pong { token, at_ns, unix_ns: 0 };
                crate::agent::write_frame(&mut stream, &pong).unwrap();
            }
        });
        let both = [agents[0].clone(), mortal.clone()];
        let line = format!("--target {target} -P workloadc -p recordcount=100 --duration {ENDLESS} --clients 4");
        let Err(Trouble::Failed(error)) = measured_with(&both, Task::Run, &line) else { panic!("one agent was gone") };
        assert!(error.to_string().contains(&format!("agent {mortal} (2 of 2) is gone")), "{error}");
        dies.join().unwrap();
        // The one that lived works for the next.
        let line = format!("--target {target} -P workloadc -p recordcount=100 -p operationcount=100 --clients 2");
        assert_eq!(measured_with(agents, Task::Run, &line).unwrap().report.phases[0].operations, 100);
    });
}

#[test]
fn what_the_others_did_is_kept_when_an_agent_dies_while_it_works() {
    use crate::agent::{FromAgent, ToAgent, write_frame};
    use crate::driver::SyncPoint;
    with_agents(1, |agents, target| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mortal = listener.local_addr().unwrap().to_string();
        let dies = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = FrameReader::default();
            answer(&mut stream, &mut reader, b"", "1").unwrap();
            let epoch = std::time::Instant::now();
            loop {
                let said = match reader.next(&mut stream, 1 << 20).unwrap().unwrap() {
                    ToAgent::Ping(token) => {
                        FromAgent::Pong { token, at_ns: epoch.elapsed().as_nanos() as u64, unix_ns: 0 }
                    }
                    ToAgent::Prepare(_) => FromAgent::Ready { threads: 1, cores: 1 },
                    ToAgent::Begin { .. } => FromAgent::At(SyncPoint::Opened),
                    ToAgent::Go(SyncPoint::Opened) => FromAgent::At(SyncPoint::Warmed),
                    _ => return,
                };
                write_frame(&mut stream, &said).unwrap();
            }
        });
        let both = [agents[0].clone(), mortal.clone()];
        let line = format!("--target {target} -P workloadc -p recordcount=100 --duration {ENDLESS} --clients 4");
        let line = format!("{line} -p operationcount=1000000000");
        let Measured { report, .. } = measured_with(&both, Task::Run, &line).unwrap();
        assert_eq!(report.outcome, RunOutcome::Failed);
        assert!(report.notes.iter().any(|note| note.contains(&mortal)), "{:?}", report.notes);
        let agents = &report.phases[0].agents;
        assert!(agents[0].lost.is_none() && agents[1].lost.is_some(), "{agents:?}");
        assert_eq!(agents[0].operations, report.phases[0].operations);
        dies.join().unwrap();
    });
}

fn handshake(theirs: &'static [u8], ours: &[u8]) -> (Result<String, String>, Result<(), String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let agent = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        answer(&mut stream, &mut FrameReader::default(), theirs, "2").map_err(|error| error.to_string())
    });
    let mut stream = TcpStream::connect(place).unwrap();
    let dialled = dial(&mut stream, &mut FrameReader::default(), ours, "1").map_err(|error| error.to_string());
    drop(stream);
    (dialled, agent.join().unwrap())
}

#[test]
fn only_who_knows_the_secret_is_worked_for() {
    assert_eq!(handshake(b"sesame", b"sesame"), (Ok("2".to_owned()), Ok(())));
    let (dialled, answered) = handshake(b"sesame", b"guess");
    assert!(dialled.unwrap_err().contains("does not know this agent's secret") && answered.is_err());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut stream = listener.accept().unwrap().0;
    let reads = std::thread::spawn(move || {
        let mut said = Vec::new();
        std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stranger.read_to_end(&mut said).map(|_| said)
    });
    assert!(answer(&mut stream, &mut FrameReader::default(), b"", "1").is_err());
    drop(stream);
    reads.join().unwrap().ok();
}
