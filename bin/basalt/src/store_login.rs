//! The password with which a store is asked, where the command line does not have it.

use client::{Login, StoreUrl};

/// Other users of the machine see what a program was started with, and not its environment.
const VARIABLE: &str = "BASALT_PASSWORD";

/// The password of the environment.
pub(crate) fn password() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())
}

/// The store, asked with the password of the environment if there is one, for the user that the URL names.
pub(crate) fn asked(store: &StoreUrl) -> StoreUrl {
    let user = store.login.as_ref().and_then(|login| login.user.clone());
    let login = password().map(|password| Login { user, password });
    StoreUrl { login: login.or_else(|| store.login.clone()), ..store.clone() }
}
