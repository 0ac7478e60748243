//! The user of a request: by Basic a user with a password, by Bearer `default` with its password, or the user that a certificate names.

use crate::shared::NodeShared;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use node::acl::{AuditEvent, AuditKind, DEFAULT_USER, Digest, User};
use node::session::{Host as _, ShownCertificate};
use std::net::IpAddr;
use std::sync::Arc;

/// Why a request is not let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// Name or password is wrong, or missing.
    Unknown,
    /// Too many wrong passwords have come from this address.
    TooOften,
}

/// The user that a request runs as. Its header counts before the certificate of its connection. Waits while a password is
/// compared.
pub(super) fn user_of(
    store: &NodeShared,
    authorization: Option<&str>,
    certificate: Option<&ShownCertificate>,
    from: Option<IpAddr>,
) -> Result<Arc<User>, Stranger> {
    let access = store.access_control();
    let users = access.users();
    let Some((name, password)) = authorization.and_then(credentials) else {
        let certificate = certificate.filter(|_| authorization.is_none());
        if let Some(user) = certificate.and_then(|shown| shown.user_among(&users, &store.config)) {
            return Ok(user);
        }
        let open = !store.users.asks_password(&store.config) && authorization.is_none();
        return if open { Ok(users.default_user()) } else { Err(Stranger::Unknown) };
    };
    let is_slowed = || from.is_some_and(|from| access.delay.until_ms(from, store.now_us() / 1000).is_some());
    if is_slowed() {
        return Err(Stranger::TooOften);
    }
    // While there are no users the password is that of `default`, whatever a browser calls it.
    let user = users.get(&name).cloned().or_else(|| (users.iter().len() == 1).then(|| users.default_user()));
    let is_right = match &user {
        Some(user) if users.is_of_settings(user) => store.config.lets_default_in(&password),
        user => access.logins.check_waiting(name.as_bytes(), user.as_deref(), Digest::of(&password)),
    };
    // Of several that were compared at the same time, those behind a wrong one are not answered.
    if is_slowed() {
        return Err(Stranger::TooOften);
    }
    if let Some(user) = user.filter(|_| is_right) {
        return Ok(user);
    }
    if let Some(from) = from {
        access.delay.failed(from, store.now_us() / 1000);
    }
    store.audit(&AuditEvent {
        kind: AuditKind::Login,
        user: name.into(),
        address: from.map(|from| from.to_string()).unwrap_or_default().into(),
        what: "http".into(),
        refusal: Some("wrong user or password".into()),
    });
    Err(Stranger::Unknown)
}

/// Name and password of the header `Authorization`.
fn credentials(text: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = text.split_once(' ')?;
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some((DEFAULT_USER.to_owned(), rest.as_bytes().to_vec())),
        "basic" => {
            let pair = STANDARD.decode(rest).ok()?;
            let colon = pair.iter().position(|byte| *byte == b':')?;
            let name = String::from_utf8_lossy(&pair[..colon]).into_owned();
            let name = if name.is_empty() { DEFAULT_USER.to_owned() } else { name };
            Some((name, pair[colon + 1..].to_vec()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::TestNode;
    use node::acl::Users;

    fn basic(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    fn name_of(store: &NodeShared, authorization: Option<&str>) -> String {
        user_of(store, authorization, None, None).map_or_else(|why| format!("{why:?}"), |user| user.name().to_string())
    }

    #[test]
    fn the_password_by_either_way_and_by_no_other() {
        let open = TestNode::start(&[]);
        assert_eq!(name_of(open.store(), None), "default");
        let node = TestNode::start(&[("requirepass", "se:cret")]);
        for right in ["Bearer se:cret", "bearer  se:cret", &basic("me:se:cret"), &basic(":se:cret")] {
            assert_eq!(name_of(node.store(), Some(right)), "default", "{right}");
        }
        for wrong in ["", "Bearer", "Bearer secret", "Basic se:cret", &basic("se"), &basic("a:b"), "Digest se:cret"] {
            assert_eq!(name_of(node.store(), Some(wrong)), "Unknown", "{wrong}");
        }
        assert_eq!(name_of(node.store(), None), "Unknown");
    }

    #[test]
    fn users_by_their_own_passwords() {
        let node = TestNode::start(&[("requirepass", "secret")]);
        let digest = Digest::of(b"alices").hex();
        let alice = User::of_rules("alice", format!("on #{digest} -@all +@role-read").as_bytes()).unwrap();
        node.store().users.control.set_users(Users::new([Arc::new(alice)]));
        assert_eq!(name_of(node.store(), Some(&basic("alice:alices"))), "alice");
        assert_eq!(name_of(node.store(), Some(&basic("alice:secret"))), "Unknown");
        assert_eq!(name_of(node.store(), Some(&basic("bob:secret"))), "Unknown");
        assert_eq!(name_of(node.store(), Some("Bearer secret")), "default");
    }

    #[test]
    fn an_address_with_many_wrong_passwords_waits() {
        let node = TestNode::start(&[("requirepass", "secret")]);
        let ask = |password: &str| {
            let from = Some(std::net::Ipv4Addr::LOCALHOST.into());
            let outcome = user_of(node.store(), Some(&format!("Bearer {password}")), None, from);
            outcome.map(|user| user.name().to_string())
        };
        assert_eq!(ask("secret").as_deref(), Ok("default"));
        let refused: Vec<Stranger> = (0..100).map(|_| ask("wrong").unwrap_err()).collect();
        assert!(refused[..11].iter().all(|why| *why == Stranger::Unknown), "ten are free: {refused:?}");
        assert!(refused.contains(&Stranger::TooOften), "{refused:?}");
    }
}
