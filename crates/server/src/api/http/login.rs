//! Who may ask: clients that know the password (`requirepass`), by Basic or Bearer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use node::Config;

/// Whether the header `Authorization` says enough.
pub(super) fn allows(config: &Config, authorization: Option<&str>) -> bool {
    if !config.password_required() {
        return true;
    }
    let Some((scheme, rest)) = authorization.and_then(|text| text.split_once(' ')) else { return false };
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => config.password_is(rest.as_bytes()),
        // Whatever the user is called: there is one password.
        "basic" => STANDARD.decode(rest).is_ok_and(|pair| {
            let colon = pair.iter().position(|byte| *byte == b':');
            colon.is_some_and(|colon| config.password_is(&pair[colon + 1..]))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_password_by_either_way_and_by_no_other() {
        let open = Config::default();
        assert!(allows(&open, None));
        let config = Config::start([("requirepass", "se:cret")]).unwrap();
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for right in ["Bearer se:cret", "bearer  se:cret", &basic("me:se:cret"), &basic(":se:cret")] {
            assert!(allows(&config, Some(right)), "{right}");
        }
        for wrong in ["", "Bearer", "Bearer secret", "Basic se:cret", &basic("se"), &basic("a:b"), "Digest se:cret"] {
            assert!(!allows(&config, Some(wrong)), "{wrong}");
        }
        assert!(!allows(&config, None));
    }
}
