//! Nodes that speak TLS to each other, or do not.
#![allow(clippy::unwrap_used)]

use super::tests::World;
use super::*;
use crate::security::NodeTls;
use node::Config;
use node::peer_protocol::PeerMessage;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;
use std::sync::Arc;
use vocab::{NodeId, ShardId};

/// Writes an authority, and a certificate of it for 127.0.0.1.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &*authority).unwrap();
    for (name, text) in
        [("ca.crt", authority.pem()), ("node.crt", certificate.pem()), ("node.key", key.serialize_pem())]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// A node with certificates and that `tls-cluster`; its settings, too. None: a node without any.
fn node(folder: &Path, id: u64, mode: Option<&str>) -> (Identity, Arc<Config>) {
    let identity = Identity::new(NodeId(id), Vec::new(), b"secret".to_vec());
    let Some(mode) = mode else { return (identity, Arc::default()) };
    let file = |name: &str| folder.join(name).display().to_string();
    let (certificate, key, authority) = (file("node.crt"), file("node.key"), file("ca.crt"));
    let files = [("tls-cert-file", &*certificate), ("tls-key-file", &key), ("tls-ca-cert-file", &authority)];
    let config = Arc::new(Config::start(files.into_iter().chain([("tls-cluster", mode)])).unwrap());
    let tls = Arc::new(NodeTls::open(config.clone()).unwrap());
    (identity.with_tls(tls, 7443), config)
}

fn is_encrypted(world: &World, place: usize) -> Option<bool> {
    world.heard(place).iter().rev().find_map(|event| match event {
        LinkEvent::Up { encrypted, .. } => Some(*encrypted),
        _ => None,
    })
}

#[test]
fn a_setting_says_whether_links_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    for (caller, called, expected) in [
        (Some("yes"), Some("yes"), Some(true)),
        (Some("yes"), Some("optional"), Some(true)),
        (Some("optional"), Some("yes"), Some(true)),
        // With certificates, a node takes TLS whatever it does itself.
        (Some("optional"), Some("no"), Some(true)),
        (Some("no"), Some("optional"), Some(false)),
        // A release without TLS, or a node without certificates.
        (Some("optional"), None, Some(false)),
        (None, Some("optional"), Some(false)),
        (Some("no"), Some("yes"), None),
        (Some("yes"), None, None),
    ] {
        let mut world = World::new();
        let a = world.start(node(folder.path(), 1, caller).0);
        let b = world.start(node(folder.path(), 2, called).0);
        world.dial(a, b);
        match expected {
            Some(_) => world.until("they meet", |world| world.is_up(a, 2) && world.is_up(b, 1)),
            None => world.until("the call is refused", |world| world.failures(a) > 1),
        }
        assert_eq!((is_encrypted(&world, a), is_encrypted(&world, b)), (expected, expected), "{caller:?} {called:?}");
    }
}

#[test]
fn messages_of_any_size_go_over_encrypted_links_which_take_the_place_of_plain_ones() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let mut world = World::new();
    let ((first, of_first), (second, of_second)) =
        (node(folder.path(), 1, Some("no")), node(folder.path(), 2, Some("no")));
    let (a, b) = (world.start(first), world.start(second));
    world.dial(a, b);
    world.until("they meet", |world| world.is_up(a, 2) && world.is_up(b, 1));
    assert_eq!(is_encrypted(&world, a), Some(false));
    for config in [&of_first, &of_second] {
        config.set(&[(b"tls-cluster", b"yes")]).unwrap();
    }
    let both = |world: &World| world.is_up(a, 2) && world.is_up(b, 1);
    world.until("they meet again", |world| both(world) && is_encrypted(world, b) == Some(true));
    let large = PeerMessage::Call { id: 9, shard: ShardId(3), command: vec![5; 20_000_000] };
    assert!(world.send(a, 2, &large) && world.send(b, 1, &PeerMessage::MapAsked { epoch: 7 }));
    world.until("both arrive", |world| world.messages(b).len() == 1 && world.messages(a).len() == 1);
    assert_eq!(world.messages(b), [(NodeId(1), large)]);
    let LinkEvent::Up { tls_port, .. } =
        world.heard(a).iter().rev().find(|event| matches!(event, LinkEvent::Up { .. })).unwrap()
    else {
        panic!()
    };
    assert_eq!(*tls_port, 7443);
}
