//! What is written by one request.

/// Elements of one request.
const ELEMENTS_MAX: usize = 512;
/// Bytes of them: with this many it takes no further one. A store refuses requests beyond `client-query-buffer-limit`.
const BYTES_SOFT: usize = 512 << 10;

/// Cuts elements into parts for one request each; `bytes`: how long one is.
pub(super) fn parts<T>(mut elements: &[T], bytes: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut parts = Vec::new();
    while !elements.is_empty() {
        let mut taken = 0;
        let is_last = |element: &T| {
            taken += bytes(element);
            taken >= BYTES_SOFT
        };
        let some = &elements[..elements.len().min(ELEMENTS_MAX)];
        let count = some.iter().position(is_last).map_or(some.len(), |last| last + 1);
        let (part, rest) = elements.split_at(count);
        parts.push(part);
        elements = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_few_elements_and_few_bytes() {
        let lengths = |elements: &[usize]| -> Vec<usize> {
            parts(elements, |bytes| *bytes).into_iter().map(<[usize]>::len).collect()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 1_100]), [512, 512, 76]);
        assert_eq!(lengths(&[BYTES_SOFT * 3, 1, BYTES_SOFT / 2, BYTES_SOFT / 2, 7]), [1, 3, 1]);
    }
}
