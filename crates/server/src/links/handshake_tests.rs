#![allow(clippy::unwrap_used)]

use super::*;
use vocab::fuzz;

fn identity(node: u64, store: u64, secret: &str) -> Identity {
    let mut identity = Identity::new(NodeId(node), format!("hello of {node}").into_bytes(), secret.as_bytes().to_vec());
    identity.store = (store > 0).then_some(StoreId(store));
    identity.instance = node;
    identity
}

/// Runs both sides to the end: what each comes to.
fn meet(dialer: Identity, acceptor: Identity, purpose: Purpose, expected: Option<NodeId>) -> (Step, Step) {
    let (mut to_acceptor, mut to_dialer) = (Vec::new(), Vec::new());
    let mut dialing = Handshake::dial(dialer, purpose, expected, [1; 32], &mut to_acceptor);
    let mut accepting = Handshake::accept(acceptor, [2; 32]);
    let (mut dialed, mut accepted) = (Step::Wait, Step::Wait);
    for _ in 0..4 {
        if accepted == Step::Wait {
            let input = std::mem::take(&mut to_acceptor);
            let (used, step) = accepting.advance(&input, &mut to_dialer);
            to_acceptor = input[used..].to_vec();
            accepted = step;
            if let Step::Proven(_) = accepted {
                welcome(&mut to_dialer);
            }
        }
        if dialed == Step::Wait {
            let input = std::mem::take(&mut to_dialer);
            let (used, step) = dialing.advance(&input, &mut to_acceptor);
            to_dialer = input[used..].to_vec();
            dialed = step;
        }
    }
    (dialed, accepted)
}

#[test]
fn two_nodes_of_one_store_meet() {
    for (mine, theirs) in [(7, 7), (0, 7), (7, 0), (0, 0)] {
        for purpose in [Purpose::Link, Purpose::Snapshot, Purpose::Client] {
            let met = meet(identity(1, mine, "s"), identity(2, theirs, "s"), purpose, Some(NodeId(2)));
            let (Step::Welcome(acceptor), Step::Proven(dialer)) = met else { panic!("{met:?}") };
            assert_eq!((acceptor.node, acceptor.store.map_or(0, |store| store.0)), (NodeId(2), theirs));
            assert_eq!((dialer.node, dialer.store.map_or(0, |store| store.0)), (NodeId(1), mine));
            assert_eq!((dialer.hello, acceptor.hello), (b"hello of 1".to_vec(), b"hello of 2".to_vec()));
            assert_eq!((dialer.purpose, acceptor.purpose, dialer.version), (purpose, purpose, VERSIONS.1));
        }
    }
}

#[test]
fn who_must_not_talk_is_told_why() {
    let other = |mut identity: Identity| {
        identity.instance += 100;
        identity
    };
    use RefusalKind::{Duplicate, Myself, Secret, Store, Stranger};
    let table = [
        (identity(1, 7, "s"), identity(2, 8, "s"), 2, Store, "belongs to store 0000000000000007"),
        (identity(1, 7, "s"), identity(2, 7, "t"), 2, Secret, "does not know the secret"),
        (identity(1, 7, ""), identity(2, 7, "t"), 2, Secret, "does not know the secret"),
        (identity(1, 7, "s"), identity(2, 7, ""), 2, Secret, "does not know the secret"),
        (identity(1, 7, "s"), identity(1, 7, "s"), 2, Myself, "has called itself"),
        (identity(1, 7, "s"), other(identity(1, 7, "s")), 2, Duplicate, "two processes"),
        (identity(1, 7, "s"), identity(2, 7, "s"), 3, Stranger, "node 0000000000000002 answers where"),
    ];
    for (dialer, acceptor, expected, kind, words) in table {
        let (dialed, accepted) = meet(dialer, acceptor, Purpose::Link, Some(NodeId(expected)));
        let refusal = |step| match step {
            Step::Refuse(refusal) => (true, refusal),
            Step::Refused(refusal) => (false, refusal),
            step => panic!("{kind:?}: {step:?}"),
        };
        let (dialed, accepted) = (refusal(dialed), refusal(accepted));
        assert_ne!(dialed.0, accepted.0, "one refuses, the other hears of it");
        assert_eq!(dialed.1, accepted.1);
        assert_eq!(dialed.1.kind, kind);
        assert!(dialed.1.text.contains(words), "{}", dialed.1.text);
    }
}

/// Changes the first part that a dialer says, and answers what the acceptor makes of it.
fn greeted(change: impl Fn(&mut Greeting)) -> (Step, Vec<u8>) {
    let mut greeting = Greeting::new(&identity(1, 7, "s"), Purpose::Link, [1; 32]);
    change(&mut greeting);
    let (mut input, mut output) = (Vec::new(), Vec::new());
    Part::Greeting(&greeting.encode()).encode(&mut input);
    let (_, step) = Handshake::accept(identity(2, 7, "s"), [2; 32]).advance(&input, &mut output);
    (step, output)
}

#[test]
fn versions_overlap_or_part_in_words() {
    assert_eq!(greeted(|greeting| greeting.versions = (1, 9)).0, Step::Wait);
    assert_eq!(greeted(|greeting| greeting.versions = (0, 2)).0, Step::Wait);
    for versions in [(VERSIONS.1 + 1, 9), (0, 1)] {
        let (Step::Refuse(refusal), output) = greeted(|greeting| greeting.versions = versions) else { panic!() };
        assert_eq!(refusal.kind, RefusalKind::Version);
        assert!(refusal.text.contains(&format!("speaks versions {} to {}", versions.0, versions.1)));
        assert_eq!(first_part(&output), Ok(Some((Part::Refused(&refusal.encode()), output.len()))));
    }
    let (Step::Refuse(refusal), _) = greeted(|greeting| greeting.purpose = None) else { panic!() };
    assert_eq!(refusal.kind, RefusalKind::Unknown);
}

#[test]
fn what_later_versions_add_to_a_greeting_is_passed_over() {
    let greeting = Greeting::new(&identity(1, 7, "s"), Purpose::Link, [1; 32]);
    let mut bytes = greeting.encode();
    bytes.extend_from_slice(b"more");
    assert_eq!(Greeting::decode(&bytes), Some(greeting));
}

#[test]
fn no_handshake_goes_on_without_a_proof() {
    let mut bytes = Vec::new();
    Part::Greeting(&Greeting::new(&identity(1, 7, "s"), Purpose::Link, [1; 32]).encode()).encode(&mut bytes);
    let greeting = bytes.len();
    let again = bytes[3..].to_vec();
    for part in [Part::Welcome, Part::Greeting(&again)] {
        bytes.truncate(greeting);
        part.encode(&mut bytes);
        let (_, step) = Handshake::accept(identity(2, 7, "s"), [2; 32]).advance(&bytes, &mut Vec::new());
        assert_eq!(step, Step::Garbage);
    }
    // The acceptor's own proof sent back to it.
    bytes.truncate(greeting);
    let mut accepting = Handshake::accept(identity(2, 7, "s"), [2; 32]);
    let mut output = Vec::new();
    assert_eq!(accepting.advance(&bytes, &mut output).1, Step::Wait);
    let (_, length) = first_part(&output).unwrap().unwrap();
    let own = output.split_off(length);
    let (_, step) = accepting.advance(&own, &mut output);
    assert!(matches!(step, Step::Refuse(Refusal { kind: RefusalKind::Secret, .. })), "{step:?}");
}

#[test]
fn fuzz_handshake_no_bytes_make_it_panic_or_run_away() {
    let mut base = Vec::new();
    Part::Greeting(&Greeting::new(&identity(1, 7, "s"), Purpose::Link, [1; 32]).encode()).encode(&mut base);
    Part::Proof([7; 32]).encode(&mut base);
    Part::Refused(b"\x01words").encode(&mut base);
    fuzz::rounds(1, |prng| {
        let mut bytes = base.clone();
        fuzz::mutate(&mut bytes, 8, prng);
        let mut output = Vec::new();
        let (used, step) = Handshake::accept(identity(2, 7, "s"), [2; 32]).advance(&bytes, &mut output);
        assert!(used <= bytes.len() && output.len() < 1024);
        assert!(!matches!(step, Step::Proven(_) | Step::Welcome(_)), "a guessed proof is refused");
    });
}
