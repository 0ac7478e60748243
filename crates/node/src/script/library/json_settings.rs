//! What a script may set of `cjson`.

use std::cell::Cell;

/// Tables within tables by default.
const DEPTH_MAX: i64 = 1000;

/// How numbers are written that JSON has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

/// What a script may set. A run begins with the defaults: nothing of a run is left for the next.
#[derive(Debug)]
pub(in crate::script) struct JsonSettings {
    pub(super) sparse_convert: Cell<bool>,
    pub(super) sparse_ratio: Cell<i64>,
    pub(super) sparse_safe: Cell<i64>,
    pub(super) encode_depth_max: Cell<i64>,
    pub(super) decode_depth_max: Cell<i64>,
    pub(super) precision: Cell<i64>,
    pub(super) encode_invalid: Cell<InvalidNumbers>,
    pub(super) decode_invalid: Cell<bool>,
    pub(super) keep_buffer: Cell<bool>,
}

impl Default for JsonSettings {
    fn default() -> Self {
        Self {
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth_max: Cell::new(DEPTH_MAX),
            decode_depth_max: Cell::new(DEPTH_MAX),
            precision: Cell::new(14),
            encode_invalid: Cell::new(InvalidNumbers::Refused),
            decode_invalid: Cell::new(true),
            keep_buffer: Cell::new(true),
        }
    }
}

impl JsonSettings {
    /// The defaults hold again.
    pub(in crate::script) fn reset(&self) {
        let defaults = Self::default();
        self.sparse_convert.swap(&defaults.sparse_convert);
        self.sparse_ratio.swap(&defaults.sparse_ratio);
        self.sparse_safe.swap(&defaults.sparse_safe);
        self.encode_depth_max.swap(&defaults.encode_depth_max);
        self.decode_depth_max.swap(&defaults.decode_depth_max);
        self.precision.swap(&defaults.precision);
        self.encode_invalid.swap(&defaults.encode_invalid);
        self.decode_invalid.swap(&defaults.decode_invalid);
        self.keep_buffer.swap(&defaults.keep_buffer);
    }
}
