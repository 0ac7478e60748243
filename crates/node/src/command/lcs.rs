//! LCS: the longest common subsequence of two strings.

use super::args::{SYNTAX, int, is_word};
use super::call::{Error, HandlerRow, Outcome, ReadCall, read};
use crate::Kind;
use resp::Reply;
use vocab::limits::BULK_BYTES_MAX;

pub(super) const ROWS: &[HandlerRow] = &[read("LCS", lcs)];

#[derive(Default)]
struct Options {
    length: bool,
    ranges: bool,
    match_lengths: bool,
    shortest: i64,
}

fn lcs(call: &mut ReadCall<'_>) -> Outcome {
    let records = [call.space.get(call.args[1])?, call.space.get(call.args[2])?];
    if records.iter().flatten().any(|record| record.view().kind != Kind::STRING) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = parse(&call.args[3..])?;
    let [a, b] = [&records[0], &records[1]].map(|record| record.as_ref().map_or(&[][..], |r| r.view().payload));
    call.space.afford(a.len().saturating_mul(b.len()))?;
    let table = Table::new(a, b)?;
    if options.ranges {
        write_ranges(&table, &options, call.reply);
    } else if options.length {
        call.reply.int(i64::from(table.length(a.len(), b.len())));
    } else {
        let mut common = Vec::with_capacity(table.length(a.len(), b.len()) as usize);
        table.walk(|i, _| common.push(a[i]));
        common.reverse();
        call.reply.bulk(&common);
    }
    Ok(())
}

fn parse(words: &[&[u8]]) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if is_word(word, "IDX") {
            options.ranges = true;
        } else if is_word(word, "LEN") {
            options.length = true;
        } else if is_word(word, "WITHMATCHLEN") {
            options.match_lengths = true;
        } else if is_word(word, "MINMATCHLEN") {
            options.shortest = int(words.next().ok_or(SYNTAX)?)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if options.ranges && options.length {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

/// For all beginnings of both strings, how long their longest common subsequence is.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    fn new(a: &'a [u8], b: &'a [u8]) -> Result<Self, Error> {
        let cells = (a.len() + 1).checked_mul(b.len() + 1);
        let cells = cells.filter(|cells| *cells <= BULK_BYTES_MAX / size_of::<u32>());
        let cells = cells.ok_or("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")?;
        let width = b.len() + 1;
        let mut lengths = vec![0; cells];
        for (i, byte) in a.iter().enumerate() {
            for (j, other) in b.iter().enumerate() {
                let at = (i + 1) * width + j + 1;
                lengths[at] =
                    if byte == other { lengths[at - width - 1] + 1 } else { lengths[at - width].max(lengths[at - 1]) };
            }
        }
        Ok(Self { a, b, lengths })
    }

    /// The length for the first `i` bytes of one and the first `j` of the other.
    fn length(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    /// Calls `visit` with the places of every common byte, from the last one to the first, as Redis chooses them.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                visit(i, j);
            } else if self.length(i - 1, j) > self.length(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}

fn write_ranges(table: &Table<'_>, options: &Options, reply: &mut Reply) {
    // Start in one string, start in the other, bytes: the last range first.
    let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
    table.walk(|i, j| match ranges.last_mut() {
        Some((start, other, length)) if *start == i + 1 && *other == j + 1 => {
            (*start, *other, *length) = (i, j, *length + 1);
        }
        _ => ranges.push((i, j, 1)),
    });
    ranges.retain(|(.., length)| *length as i64 >= options.shortest);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(ranges.len());
    for (i, j, length) in ranges {
        reply.array(2 + usize::from(options.match_lengths));
        for start in [i, j] {
            reply.array(2);
            reply.int(start as i64);
            reply.int((start + length - 1) as i64);
        }
        if options.match_lengths {
            reply.int(length as i64);
        }
    }
    reply.bulk(b"len");
    reply.int(i64::from(table.length(table.a.len(), table.b.len())));
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("lcs");
    }
}
