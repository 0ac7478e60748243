//! The elements of DER, as far as the fields of a certificate need them.

/// Tags of elements.
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) body: &'a [u8],
}

/// Elements that follow one another. What cannot be understood ends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The body of the next element, if it has that tag; otherwise the element stays.
    pub(crate) fn field(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.next().map(|element| element.body)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            // No certificate has 16 MiB.
            if count == 0 || count > 3 {
                return None;
            }
            let (bytes, after) = rest.split_at_checked(count)?;
            length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            rest = after;
        }
        let (body, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_end_where_they_make_no_sense() {
        let long = [&[OCTETS, 0x82, 1, 0][..], &[7; 256]].concat();
        for (bytes, lengths) in [
            (&[][..], &[][..]),
            (&[INTEGER, 1, 5, OCTETS, 0], &[1, 0]),
            (&[INTEGER, 2, 5], &[]),
            (&[INTEGER, 0x80, 5], &[]),
            (&[INTEGER, 0x84, 0, 0, 0, 1, 5], &[]),
            (&[INTEGER], &[]),
            (&long, &[256]),
        ] {
            assert_eq!(
                Elements::new(bytes).map(|element| element.body.len()).collect::<Vec<_>>(),
                lengths,
                "{bytes:?}"
            );
        }
        let mut both = Elements::new(&[INTEGER, 1, 5, OCTETS, 0]);
        assert_eq!(
            (both.field(OCTETS), both.field(INTEGER), both.field(OCTETS)),
            (None, Some(&[5][..]), Some(&[][..]))
        );
    }
}
