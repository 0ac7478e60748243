//! A command on its way from a client to its shard.

use replica::Bytes;
use resp::table::{self, CommandSpec};
use std::sync::Arc;
use vocab::limits::ENTRY_BYTES_SOFT;
use vocab::{Reader, put_bytes, put_varint, varint_bytes};

/// The arguments of one command.
pub type Args<'a> = Vec<&'a [u8]>;

/// A command's arguments: what is sent between threads and queued. In one piece, but for long ones, which may be part of the
/// request that they came in.
#[derive(Clone, Debug)]
pub struct EncodedCommand {
    /// The command's row; `None` for one that is not in the table, or has a wrong number of arguments.
    spec: Option<&'static CommandSpec>,
    /// Shared by its copies.
    bytes: Bytes,
    /// What follows `bytes`, if anything does: a long argument, then again what comes up to and with the length of the next
    /// one, and so on.
    rest: Option<Arc<[Bytes]>>,
}

impl EncodedCommand {
    /// Encodes arguments, and finds the command's row by its name.
    #[must_use]
    pub fn new(args: &[&[u8]]) -> Self {
        Self { spec: table::find(args), bytes: encode(args), rest: None }
    }

    /// Encodes the arguments of a command whose row is known.
    #[must_use]
    pub fn of(spec: &'static CommandSpec, args: &[&[u8]]) -> Self {
        Self { spec: Some(spec), bytes: encode(args), rest: None }
    }

    /// The same. Long arguments that lie in `frame`, which is the request as it came, are not copied.
    #[must_use]
    pub fn within(spec: &'static CommandSpec, args: &[&[u8]], frame: Option<&Bytes>) -> Self {
        let Some(frame) = frame else { return Self::of(spec, args) };
        let (mut parts, mut head) = (Vec::new(), Vec::new());
        put_varint(&mut head, args.len() as u64);
        for arg in args {
            let Some(long) = part_of(frame, arg) else {
                put_bytes(&mut head, arg);
                continue;
            };
            put_varint(&mut head, arg.len() as u64);
            parts.extend([Bytes::from(std::mem::take(&mut head)), long]);
        }
        parts.push(head.into());
        let bytes = parts.remove(0);
        Self { spec: Some(spec), bytes, rest: (!parts.is_empty()).then(|| parts.into()) }
    }

    /// Its bytes, in parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Bytes> {
        [&self.bytes].into_iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// The command's row.
    #[must_use]
    pub fn spec(&self) -> Option<&'static CommandSpec> {
        self.spec
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.rest.as_ref().map_or(0, |rest| rest.iter().map(Bytes::len).sum())
    }

    /// How many arguments it has, its name among them.
    #[must_use]
    pub fn arguments(&self) -> usize {
        Reader::new(&self.bytes).varint().map_or(0, |count| count as usize)
    }

    /// What is sent to another node.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        if self.rest.is_none() {
            self.bytes.into()
        } else {
            self.parts().map(|part| &part[..]).collect::<Vec<_>>().concat()
        }
    }

    /// A command that another node has sent.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mut reader = Reader::new(&bytes);
        let args = all_args(&mut reader)?;
        reader.end()?;
        let spec = table::find(&args);
        Ok(Self { spec, bytes: bytes.into(), rest: None })
    }

    /// Takes the arguments out: the row alone is left.
    pub(crate) fn take(&mut self) -> Self {
        Self { spec: self.spec, bytes: std::mem::take(&mut self.bytes), rest: self.rest.take() }
    }

    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Args<'_> {
        let args = match &self.rest {
            None => all_args(&mut Reader::new(&self.bytes)),
            Some(rest) => args_of_parts(&self.bytes, rest),
        };
        args.expect("encoded by new")
    }
}

/// The argument as a part of `frame`, if it is long and lies in there.
fn part_of(frame: &Bytes, arg: &[u8]) -> Option<Bytes> {
    let (outer, inner) = (frame.as_ptr_range(), arg.as_ptr_range());
    let is_within = outer.start <= inner.start && inner.end <= outer.end;
    (arg.len() > ENTRY_BYTES_SOFT && is_within).then(|| frame.slice_ref(arg))
}

/// The arguments of a command whose long ones are parts of their own, each behind its length.
fn args_of_parts<'a>(first: &'a Bytes, rest: &'a [Bytes]) -> Result<Args<'a>, &'static str> {
    let (mut reader, mut rest) = (Reader::new(first), rest.iter());
    let count = reader.varint()?;
    let mut args = Args::new();
    for _ in 0..count {
        let length = reader.varint()? as usize;
        let long = if reader.is_empty() && length > 0 { rest.next() } else { None };
        args.push(match long {
            Some(long) => {
                reader = Reader::new(rest.next().map_or(&[][..], |next| next));
                long
            }
            None => reader.take(length)?,
        });
    }
    Ok(args)
}

fn encode(args: &[&[u8]]) -> Bytes {
    let length = |bytes: usize| bytes + varint_bytes(bytes as u64);
    // Exactly as much as is needed: then the bytes become shared ones without an allocation.
    let total = varint_bytes(args.len() as u64) + args.iter().map(|arg| length(arg.len())).sum::<usize>();
    let mut bytes = Vec::with_capacity(total);
    put_varint(&mut bytes, args.len() as u64);
    for arg in args {
        put_bytes(&mut bytes, arg);
    }
    debug_assert_eq!(bytes.len(), total);
    bytes.into()
}

fn all_args<'a>(reader: &mut Reader<'a>) -> Result<Args<'a>, &'static str> {
    read_args(reader, |_| Ok(()))
}

/// The arguments of a command, if `admit` takes so many.
pub(super) fn read_args<'a>(
    reader: &mut Reader<'a>,
    admit: impl FnOnce(usize) -> Result<(), &'static str>,
) -> Result<Args<'a>, &'static str> {
    let count = reader.count(1)?;
    admit(count)?;
    if count == 0 {
        return Err("a command without a name in an entry");
    }
    (0..count).map(|_| Ok(reader.bytes()?)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::entry::EntryBuilder;
    use super::*;

    /// Long arguments at every place, in the request as it came or elsewhere: all that is asked of such a command is as it is of
    /// one whose arguments are in one piece.
    #[test]
    fn long_arguments_of_a_request_are_shared_and_make_the_same_command() {
        let long = vec![3; ENTRY_BYTES_SOFT + 1];
        let request = Bytes::from([&b"SETk"[..], &long, b"12", &long].concat());
        let (first, second) = (&request[4..4 + long.len()], &request[6 + long.len()..]);
        let (name, key, empty) = (&request[..3], &request[3..4], &request[..0]);
        for (args, shared) in [
            (vec![name, key, first], 1),
            (vec![name, first, key], 1),
            (vec![name, first, second], 2),
            (vec![name, first, second, empty], 2),
            (vec![name, empty, first, empty, second, key], 2),
            (vec![name, key, empty], 0),
            (vec![name, key, &long], 0),
        ] {
            let spec = table::lookup(b"SET").unwrap();
            let (one, parts) = (EncodedCommand::of(spec, &args), EncodedCommand::within(spec, &args, Some(&request)));
            let lengths: Vec<usize> = args.iter().map(|arg| arg.len()).collect();
            assert_eq!(parts.parts().filter(|part| request.as_ptr_range().contains(&part.as_ptr())).count(), shared);
            assert!(parts.args() == args && one.args() == args, "{lengths:?}");
            assert_eq!((parts.bytes(), parts.arguments()), (one.bytes(), one.arguments()), "{lengths:?}");
            let entry = |command: &EncodedCommand, is_large: bool| {
                let mut builder = EntryBuilder::new();
                if is_large {
                    builder.large_command(command)
                } else {
                    builder.encoded_command(command)
                }
                builder.seal(1)
            };
            for is_large in [false, true] {
                assert!(entry(&parts, is_large) == entry(&one, false), "{lengths:?}");
            }
            assert!(parts.clone().take().into_bytes() == one.into_bytes(), "{lengths:?}");
        }
    }
}
