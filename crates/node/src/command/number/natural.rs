//! Natural numbers of any size, with the operations that exact conversion between decimal and binary floats needs.

/// Limbs of 32 bits, the lowest first; no zeros at the top.
#[derive(Clone, Debug)]
pub(super) struct Natural {
    limbs: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(n: u64) -> Self {
        let mut natural = Self { limbs: vec![n as u32, (n >> 32) as u32] };
        natural.trim();
        natural
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// The number of bits up to the highest set one; 0 for 0.
    pub(super) fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |top| self.limbs.len() * 32 - top.leading_zeros() as usize)
    }

    /// × factor + summand
    pub(super) fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    /// ÷ divisor; answers the remainder.
    pub(super) fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.limbs.iter_mut().rev() {
            rest = rest << 32 | u64::from(*limb);
            *limb = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    /// × 2^n
    pub(super) fn shift_left(&mut self, n: u32) {
        if self.limbs.is_empty() {
            return;
        }
        self.multiply_add(1 << (n % 32), 0);
        self.limbs.splice(0..0, std::iter::repeat_n(0, (n / 32) as usize));
    }

    /// The highest 128 bits, the first of them set (unless it is 0), and whether there are set bits below them.
    pub(super) fn top_128(&self) -> (u128, bool) {
        let limbs = self.limbs.len();
        let top = self.limbs.iter().rev().take(4).fold(0u128, |top, limb| top << 32 | u128::from(*limb));
        let top = top << (32 * 4usize.saturating_sub(limbs));
        let shift = if top == 0 { 0 } else { top.leading_zeros() };
        let fifth = limbs.checked_sub(5).map_or(0, |at| self.limbs[at]);
        let moved_in = u64::from(fifth) << shift;
        let below = moved_in as u32 != 0 || self.limbs[..limbs.saturating_sub(5)].iter().any(|limb| *limb != 0);
        (top << shift | u128::from(moved_in >> 32), below)
    }

    /// The decimal form.
    pub(super) fn into_decimal(mut self) -> String {
        const CHUNK: u32 = 1_000_000_000;
        let mut chunks = vec![self.divide(CHUNK)];
        while !self.limbs.is_empty() {
            chunks.push(self.divide(CHUNK));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        chunks.iter().rev().for_each(|chunk| text.push_str(&format!("{chunk:09}")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Natural;

    #[test]
    fn agrees_with_u128() {
        let mut natural = Natural::from(0);
        let mut expected = 0u128;
        for (factor, summand) in [(10, 7), (1_000_000_000, 123_456_789), (u32::MAX, u32::MAX), (97, 1)] {
            natural.multiply_add(factor, summand);
            expected = expected * u128::from(factor) + u128::from(summand);
            assert_eq!(natural.clone().into_decimal(), expected.to_string());
            assert_eq!(natural.bits() as u32, 128 - expected.leading_zeros());
            assert_eq!(natural.top_128(), (expected << expected.leading_zeros(), false));
        }
        natural.shift_left(97);
        assert_eq!(natural.top_128(), (expected << expected.leading_zeros(), false));
        natural.multiply_add(1, 1);
        assert_eq!(natural.top_128(), (expected << expected.leading_zeros(), true));
        assert_eq!(natural.divide(2), 1);
        let mut back = natural;
        (0..6).for_each(|_| _ = back.divide(1 << 16));
        assert_eq!(back.into_decimal(), expected.to_string());
        assert_eq!(Natural::from(0).into_decimal(), "0");
    }
}
