//! Transcripts, which Redis itself is held against, and a model for what both forms have in common.

use crate::exec::transcript;

#[test]
fn small_hashes() {
    transcript::check("hash");
}
