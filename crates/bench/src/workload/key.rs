//! Key number → key, as YCSB names its records; and constant-size base-32 keys as an option.

use std::io::Write as _;

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// Digits whose byte order is their numeric order, so that ordered keys stay ordered.
const BASE32: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
/// 13 digits of 5 bits hold any 64-bit number.
pub const BASE32_KEY_BYTES: usize = 13;

/// YCSB's 64-bit FNV: least-significant byte first, the absolute value of the signed result.
#[must_use]
pub fn fnv(number: i64) -> u64 {
    let mut rest = number;
    let mut hash = FNV_OFFSET;
    for _ in 0..8 {
        hash ^= (rest & 0xff) as u64;
        hash = hash.wrapping_mul(FNV_PRIME);
        rest >>= 8;
    }
    (hash as i64).unsigned_abs()
}

/// How a number becomes the digits of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// By its hash: neighbours in number are strangers in the key space.
    Hashed,
    /// As it is.
    Ordered,
}

/// How the digits are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `user` and decimal digits, padded with zeros.
    Decimal,
    /// Thirteen base-32 digits and nothing else.
    Base32,
}

/// Names records.
#[derive(Clone, Debug)]
pub struct KeyNamer {
    /// Hashed or as it is.
    pub order: KeyOrder,
    /// Decimal with a prefix, or base 32.
    pub form: KeyForm,
    /// Decimal digits are padded to this many.
    pub zero_padding: usize,
    /// What stands before decimal digits.
    pub prefix: String,
}

impl KeyNamer {
    /// Whether the keys of the numbers below `end` ascend as the numbers do.
    #[must_use]
    pub fn ascends_below(&self, end: u64) -> bool {
        let digits = end.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1;
        self.order == KeyOrder::Ordered && (self.form == KeyForm::Base32 || self.zero_padding >= digits)
    }

    /// Appends the name of record `number` to `out`.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let digits = match self.order {
            KeyOrder::Hashed => fnv(number as i64),
            KeyOrder::Ordered => number,
        };
        match self.form {
            KeyForm::Decimal => {
                out.extend_from_slice(self.prefix.as_bytes());
                write!(out, "{digits:0width$}", width = self.zero_padding).expect("a Vec takes all that is written");
            }
            KeyForm::Base32 => {
                for place in (0..BASE32_KEY_BYTES).rev() {
                    out.push(BASE32[(digits >> (5 * place)) as usize & 31]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name(order: KeyOrder, form: KeyForm, zero_padding: usize, number: u64) -> String {
        let mut out = Vec::new();
        KeyNamer { order, form, zero_padding, prefix: "user".to_owned() }.write(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn golden_hashed_keys() {
        let golden = "6284781860667377211 8517097267634966620 1820151046732198393 4052466453699787802 \
            3232700585171816769 1000385178204227360 7697331399106995587 5465015992139406178 6873002678636213555 \
            9105318085603802964 2408371864701034737 4640687271668624146 2644479767202980425 412164360235391016 \
            7109110581138159243 4876795174170569834 7461223496605049899 8753205170136912308 2996592682669871081 \
            5228908089637460490";
        for (number, digits) in golden.split_whitespace().enumerate() {
            assert_eq!(name(KeyOrder::Hashed, KeyForm::Decimal, 1, number as u64), format!("user{digits}"));
        }
    }

    #[test]
    fn padded_keys_ascend_as_their_numbers_do() {
        for (order, form, zero_padding, end, expected) in [
            (KeyOrder::Ordered, KeyForm::Decimal, 1, 10, true),
            (KeyOrder::Ordered, KeyForm::Decimal, 1, 11, false),
            (KeyOrder::Ordered, KeyForm::Decimal, 6, 1_000_000, true),
            (KeyOrder::Ordered, KeyForm::Base32, 1, 1_000_000, true),
            (KeyOrder::Hashed, KeyForm::Decimal, 20, 10, false),
            (KeyOrder::Hashed, KeyForm::Base32, 1, 10, false),
        ] {
            let namer = KeyNamer { order, form, zero_padding, prefix: "user".to_owned() };
            assert_eq!(namer.ascends_below(end), expected, "{namer:?} {end}");
        }
    }

    #[test]
    fn golden_hashes() {
        for (number, hash) in [
            (255, 8_064_062_821_143_829_734),
            (256, 2_056_600_594_528_442_646),
            (2_147_483_648, 5_860_980_763_039_959_109),
            (10_000_000_000, 1_201_321_332_300_452_516),
            (-1, 8_289_690_350_564_177_859),
        ] {
            assert_eq!(fnv(number), hash, "{number}");
        }
    }

    #[test]
    fn other_forms() {
        for (order, form, padding, number, expected) in [
            (KeyOrder::Ordered, KeyForm::Decimal, 8, 0, "user00000000"),
            (KeyOrder::Ordered, KeyForm::Decimal, 8, 1, "user00000001"),
            (KeyOrder::Ordered, KeyForm::Decimal, 1, 3_000_000_000, "user3000000000"),
            (KeyOrder::Ordered, KeyForm::Base32, 1, 0, "0000000000000"),
            (KeyOrder::Ordered, KeyForm::Base32, 1, 31, "000000000000v"),
            (KeyOrder::Ordered, KeyForm::Base32, 1, 32, "0000000000010"),
            (KeyOrder::Ordered, KeyForm::Base32, 1, u64::MAX, "fvvvvvvvvvvvv"),
            (KeyOrder::Hashed, KeyForm::Base32, 1, 0, "5ee43g0m1arrr"),
        ] {
            let key = name(order, form, padding, number);
            if form == KeyForm::Base32 {
                assert_eq!(key.len(), BASE32_KEY_BYTES);
            }
            if (order, number) != (KeyOrder::Hashed, 0) {
                assert_eq!(key, expected);
            } else {
                let back = key.bytes().fold(0u64, |n, b| n << 5 | BASE32.iter().position(|&d| d == b).unwrap() as u64);
                assert_eq!(back, fnv(0));
            }
        }
    }
}
