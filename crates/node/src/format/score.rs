//! The score of a sorted set's member, as it is stored: a double, little-endian.

/// How long a stored score is.
pub(crate) const SCORE_BYTES: usize = 8;

/// The stored bytes of a score.
pub(crate) fn encode(score: f64) -> [u8; SCORE_BYTES] {
    score.to_le_bytes()
}

/// The score that is stored; `None` if the bytes are not a number.
pub(crate) fn decode(bytes: &[u8]) -> Option<f64> {
    let score = f64::from_le_bytes(bytes.try_into().ok()?);
    (!score.is_nan()).then_some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_come_back_bit_by_bit() {
        for score in [0.0, -0.0, 0.1, f64::MIN_POSITIVE / 2.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(decode(&encode(score)).map(f64::to_bits), Some(score.to_bits()));
        }
        assert_eq!(decode(&f64::NAN.to_le_bytes()), None);
        assert_eq!(decode(b"1234567"), None);
    }
}
