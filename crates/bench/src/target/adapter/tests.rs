//! The whole way through a socket: a thread at its other end is the adapter, with a map for a store.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::lane::Manner;
use super::super::map_store::MapStore;
use super::super::session::{RecordSession, Session};
use super::super::{EmbeddedStore, Fault, OpStage};
use super::transport::AdapterTransport;
use super::{hello, wire};
use crate::workload::{Config, OpKind, Properties, Task, Workload};

/// What the adapter does with one request in so many.
#[derive(Clone, Copy)]
struct Trouble {
    every: u64,
    outcome: u8,
    word: &'static [u8],
}

/// Serves `stream` until it ends. Answers leave in an order of their own, in pieces.
fn adapter(mut stream: UnixStream, store: &MapStore, trouble: Option<Trouble>) {
    let mut handle = store.handle(64).unwrap();
    let (mut input, mut piece, mut asked) = (Vec::new(), [0; 4096], 0);
    loop {
        let Ok(count) = stream.read(&mut piece) else { return };
        if count == 0 {
            return;
        }
        input.extend_from_slice(&piece[..count]);
        let mut answers: Vec<Vec<u8>> = Vec::new();
        let mut start = 0;
        while let Some(body) = wire::take_frame(&input[start..]).unwrap() {
            start += 4 + body.len();
            asked += 1;
            let (token, args) = request(body);
            let mut answer = body[..4].to_vec();
            match trouble.filter(|trouble| asked % trouble.every == 0) {
                Some(trouble) => {
                    answer.push(trouble.outcome);
                    answer.extend_from_slice(trouble.word);
                }
                None => {
                    answer.push(0);
                    if !handle.submit(token, &args, &mut answer) {
                        let now = Some(Instant::now());
                        handle.wait(now, &mut |_, reply| answer.extend_from_slice(reply)).unwrap();
                    }
                }
            }
            answers.insert(0, [&(answer.len() as u32).to_be_bytes()[..], &answer].concat());
        }
        input.drain(..start);
        for piece in answers.concat().chunks(777) {
            stream.write_all(piece).unwrap();
        }
    }
}

/// Token and arguments.
fn request(body: &[u8]) -> (u32, Vec<&[u8]>) {
    let number = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut args) = (9, Vec::new());
    for _ in 0..number(5) {
        args.push(&body[at + 4..at + 4 + number(at)]);
        at += 4 + number(at);
    }
    assert_eq!(at, body.len());
    (number(0) as u32, args)
}

/// Runs `task` on 16 lanes and answers how many operations ended well and the faults of the others.
fn run(properties: &[(&str, &str)], task: Task, store: &MapStore, trouble: Option<Trouble>) -> (u64, Vec<Fault>) {
    const LANES: usize = 16;
    let mut given = Properties::new();
    properties.iter().for_each(|(name, value)| given.set(name, value));
    let workload = Arc::new(Workload::plan(Config::read(&given).unwrap(), task).unwrap());
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs_store = store.clone();
    let served = std::thread::spawn(move || adapter(theirs, &theirs_store, trouble));
    let transport = AdapterTransport::new(ours, None, LANES, Duration::from_secs(5)).unwrap();
    let manner = Manner { patience: Some(Duration::from_secs(5)), ..Manner::default() };
    let mut session = RecordSession::new(transport, Arc::clone(&workload), LANES, manner);
    let mut source = workload.source(7);
    let (mut busy, mut idle) = (0, (0..LANES as u32).collect::<Vec<_>>());
    let (mut done, mut good, mut faults) = (Vec::new(), 0, Vec::new());
    let mut left = workload.operations().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while left > 0 || busy > 0 {
        assert!(Instant::now() < end, "the run hangs");
        while left > 0
            && let Some(lane) = idle.pop()
        {
            assert!(source.next(session.operation(lane)));
            session.start(lane);
            (busy, left) = (busy + 1, left - 1);
        }
        session.wait(Some(Instant::now() + Duration::from_millis(100)), &mut done).unwrap();
        for completion in done.drain(..).filter(|completion| matches!(completion.part, OpStage::Whole { .. })) {
            let operation = session.operation(completion.lane).clone();
            let succeeded = completion.outcome.result.is_ok();
            if matches!(operation.kind, OpKind::Insert) {
                workload.finished(&operation, succeeded).unwrap();
            }
            match completion.outcome.result {
                Ok(()) => good += 1,
                Err(fault) => faults.push(fault),
            }
            idle.push(completion.lane);
            busy -= 1;
        }
    }
    drop(session);
    served.join().unwrap();
    (good, faults)
}

#[test]
fn records_are_loaded_read_changed_and_scanned_through_the_socket() {
    for record in ["hash", "string"] {
        let store = MapStore::default();
        let load = [("recordcount", "300"), ("fieldlength", "50"), ("basalt.record", record)];
        assert_eq!(run(&load, Task::Load, &store, None), (300, Vec::new()), "{record}");
        let mut all = load.to_vec();
        all.extend([("operationcount", "2000"), ("readproportion", "0.4"), ("updateproportion", "0.3")]);
        all.extend([("scanproportion", "0.1"), ("readmodifywriteproportion", "0.2"), ("maxscanlength", "30")]);
        assert_eq!(run(&all, Task::Run, &store, None), (2000, Vec::new()), "{record}");
    }
}

#[test]
fn a_refusal_is_attempted_again_and_an_unknown_update_is_not() {
    let store = MapStore::default();
    let load = [("recordcount", "100")];
    // An insert may be made again whatever became of it.
    for (outcome, word) in [(1, &b"CLUSTERDOWN"[..]), (2, b"timeout")] {
        let trouble = Trouble { every: 7, outcome, word };
        assert_eq!(run(&load, Task::Load, &store, Some(trouble)), (100, Vec::new()));
    }
    let updates =
        [("recordcount", "100"), ("operationcount", "70"), ("readproportion", "0"), ("updateproportion", "1")];
    let refused = Trouble { every: 7, outcome: 1, word: b"LOADING" };
    assert_eq!(run(&updates, Task::Run, &store, Some(refused)), (70, Vec::new()));
    let unknown = Trouble { every: 7, outcome: 2, word: b"timeout" };
    let (good, faults) = run(&updates, Task::Run, &store, Some(unknown));
    assert_eq!((good, faults.len()), (60, 10));
    assert!(faults.iter().all(|fault| *fault == Fault::error("timeout")), "{faults:?}");
}

#[test]
fn greetings_are_lines() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let adapter = std::thread::spawn(move || {
        for answer in ["protocol=1\nsystem=X 1.0\nnode=a:1\nnode=b:2\n", "error=no such host\n", "protocol=2\n"] {
            let mut head = [0; 4];
            theirs.read_exact(&mut head).unwrap();
            let mut greeting = vec![0; u32::from_be_bytes(head) as usize];
            theirs.read_exact(&mut greeting).unwrap();
            assert_eq!(greeting, b"what=hello\n");
            theirs.write_all(&(answer.len() as u32).to_be_bytes()).unwrap();
            theirs.write_all(answer.as_bytes()).unwrap();
        }
    });
    let told = hello::greet(&mut ours, "what=hello\n").unwrap();
    assert_eq!((told.get("system"), told.all("node").collect()), (Some("X 1.0"), vec!["a:1", "b:2"]));
    let error = |ours: &mut UnixStream| hello::greet(ours, "what=hello\n").unwrap_err().to_string();
    assert_eq!(error(&mut ours), "no such host");
    assert!(error(&mut ours).contains("protocol 2"));
    adapter.join().unwrap();
}
