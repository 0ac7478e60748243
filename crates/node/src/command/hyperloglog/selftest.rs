//! PFSELFTEST: this build's arithmetic on sketches, checked while it runs.

use super::estimate::{REGISTERS, estimate, place_of};
use super::sketch::{Corrupt, Sketch};
use crate::command::call::{Outcome, StoreCall};

/// Elements that it adds: Redis adds ten million, and serves no other client meanwhile.
const ELEMENTS: u64 = 100_000;
const SPARSE_BYTES: u64 = 3000;

pub(super) fn pfselftest(call: &mut StoreCall<'_>) -> Outcome {
    match first_fault()? {
        None => call.reply.ok(),
        Some(fault) => call.reply.error(&format!("TESTFAILED {fault}")),
    }
    Ok(())
}

/// What is wrong, if anything is.
fn first_fault() -> Result<Option<String>, Corrupt> {
    let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
    dense.make_dense()?;
    let mut checked = 1;
    for n in 1..=ELEMENTS {
        let (index, value) = place_of(&n.to_le_bytes());
        let raised = (sparse.raise(index, value, SPARSE_BYTES)?, dense.raise(index, value, SPARSE_BYTES)?);
        if raised.0 != raised.1 {
            return Ok(Some(format!("dense/sparse disagree about element {n}")));
        }
        if n < checked {
            continue;
        }
        checked *= 10;
        if sparse.is_dense() && n < SPARSE_BYTES / 2 {
            return Ok(Some("sparse encoding not used".to_owned()));
        }
        let count = estimate(&dense.histogram()?);
        if count != estimate(&sparse.histogram()?) {
            return Ok(Some("dense/sparse disagree".to_owned()));
        }
        let error_max = (n as f64 * 6.0 * 1.04 / (REGISTERS as f64).sqrt()).ceil();
        let error = count.abs_diff(n);
        if error as f64 > error_max {
            return Ok(Some(format!("Too big error. card:{n} abserr:{error}")));
        }
    }
    Ok(None)
}
