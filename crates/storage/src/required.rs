//! What a test needs of the machine. If the machine lacks it, the test says so and passes, unless `BASALT_REQUIRE` (words separated
//! by commas) names it: then the test fails.

use std::env;
use std::fmt::Display;

/// io_uring(7), and files that are read and written past the page cache.
pub(crate) const URING: &str = "uring";

/// What was found, or none where the machine does not have it.
pub(crate) fn required<T, E: Display>(word: &str, found: Result<T, E>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) => {
            let words = env::var("BASALT_REQUIRE").unwrap_or_default();
            assert!(!words.split(',').any(|one| one == word), "{word} is required, and not here: {error}");
            println!("SKIPPED for want of {word}: {error}");
            None
        }
    }
}

#[test]
fn what_is_missing_is_a_skip_unless_it_is_required() {
    assert_eq!(required("a word that no gate requires", Err::<(), _>("not here")), None);
    assert_eq!(required(URING, Ok::<_, &str>(1)), Some(1));
}
