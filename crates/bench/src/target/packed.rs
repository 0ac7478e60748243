//! A record as one string: for each field the length of its name (2 bytes, big-endian), the name, the length of its
//! value (4 bytes) and the value.

/// Appends one field.
pub(super) fn push(name: &[u8], value_length: usize, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
    let mark = out.len();
    out.extend_from_slice(&[0; 4]);
    out.reserve(value_length);
    write(out);
    let length = (out.len() - mark - 4) as u32;
    out[mark..mark + 4].copy_from_slice(&length.to_be_bytes());
}

/// The fields of a packed record; an `Err` where it is damaged.
pub(super) struct Unpacked<'a>(&'a [u8]);

impl<'a> Unpacked<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

/// A record that ends within a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl<'a> Iterator for Unpacked<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = take_field(self.0);
        self.0 = field.map_or(&[], |(_, rest)| rest);
        Some(field.map(|(field, _)| field).ok_or(Damaged))
    }
}

/// A name and a value, and what follows.
type Field<'a> = ((&'a [u8], &'a [u8]), &'a [u8]);

fn take_field(bytes: &[u8]) -> Option<Field<'_>> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(((name, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks_and_damage_shows() {
        let mut packed = Vec::new();
        for (name, value) in [("field0", "abc"), ("field1", "")] {
            push(name.as_bytes(), value.len(), |out| out.extend_from_slice(value.as_bytes()), &mut packed);
        }
        let fields: Vec<_> = Unpacked::new(&packed).collect();
        assert_eq!(fields, [Ok((&b"field0"[..], &b"abc"[..])), Ok((&b"field1"[..], &b""[..]))]);
        for cut in 1..packed.len() {
            let fields: Vec<_> = Unpacked::new(&packed[..cut]).collect();
            assert!(fields.contains(&Err(Damaged)) || fields.len() < 2, "cut at {cut}");
        }
    }
}
