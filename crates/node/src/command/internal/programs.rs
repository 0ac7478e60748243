//! KV.PROGRAM: what the metadata group keeps of the store's programs, a row each. Not for clients.
//!
//! | command | reply |
//! |-|-|
//! | `KV.PROGRAM PUT name row [name row …]` | OK |
//! | `KV.PROGRAM DROP name [name …]` | OK |

use crate::command::args::{SYNTAX, is_word};
use crate::command::call::{Outcome, WriteCall};

pub(super) fn program(call: &mut WriteCall<'_>) -> Outcome {
    let (word, rest) = (call.args[1], &call.args[2..]);
    if is_word(word, "DROP") {
        for name in rest {
            call.space.put_program(name, None)?;
        }
    } else {
        let (pairs, odd) = rest.as_chunks::<2>();
        if !is_word(word, "PUT") || !odd.is_empty() {
            return Err(SYNTAX.into());
        }
        for [name, row] in pairs {
            call.space.put_program(name, Some(row))?;
        }
    }
    call.reply.ok();
    Ok(())
}
