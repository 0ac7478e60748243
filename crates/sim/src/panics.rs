//! A broken invariant panics; in a simulation that is a finding, not an end.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// While a call is watched: what its panic said.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `call`; the error is what its panic said, and where.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            let watched = SAID.with_borrow_mut(|said| said.as_mut().map(|said| *said = info.to_string()).is_some());
            if !watched {
                usual(info);
            }
        }));
    });
    SAID.set(Some(String::new()));
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let said = SAID.take().unwrap_or_default();
    outcome.map_err(|_| said)
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_told() {
        assert_eq!(caught(|| 5), Ok(5));
        let said = caught(|| assert_eq!(1, 2, "no")).unwrap_err();
        assert!(said.contains("panics.rs") && said.contains("no"), "{said}");
    }
}
