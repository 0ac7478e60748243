//! SINTERSTORE, SUNIONSTORE and SDIFFSTORE in an entry: of sets that are small enough for one. `staged` makes larger ones.

use super::combination::{Combination, Operation};
use crate::Type;
use crate::command::args::check_release;
use crate::command::call::{Outcome, WriteCall};
use crate::command::gathered::Gathered;
use crate::command::hash::Builder;
use vocab::limits;

const TOO_LARGE: &str = "ERR the sets are too large to be combined within a transaction (16384 members, 8 MiB)";
const _: () = assert!(limits::STORE_WHOLE_ELEMENTS_MAX == 16_384, "TOO_LARGE says how many");
const _: () = assert!(limits::GATHERED_BYTES_MAX == 8 << 20, "TOO_LARGE says how many");

pub(super) fn sinterstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Intersection)
}

pub(super) fn sunionstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Union)
}

pub(super) fn sdiffstore(call: &mut WriteCall<'_>) -> Outcome {
    store(call, Operation::Difference)
}

fn store(call: &mut WriteCall<'_>, operation: Operation) -> Outcome {
    check_release(call.space)?;
    let to = call.args[1];
    let mut combination = Combination::begin(operation, call.space, &call.args[2..])?;
    if combination.work()? > limits::STORE_WHOLE_ELEMENTS_MAX {
        return Err(TOO_LARGE.into());
    }
    let mut members = Gathered::new(limits::STORE_WHOLE_ELEMENTS_MAX, TOO_LARGE);
    while let Some(member) = combination.next(call.space)? {
        members.push(&member, b"")?;
    }
    if members.len() == 0 {
        call.space.delete_told(to)?;
    } else {
        let mut builder = Builder::new(Type::Set, to, None);
        for (member, _) in members.iter() {
            builder.push(call.space, member, b"")?;
        }
        builder.finish(call.space)?;
        call.space.notify(operation.event(), to);
    }
    call.reply.int(members.len() as i64);
    Ok(())
}
