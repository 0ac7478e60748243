//! Numbers wider than the processor's, for INCRBYFLOAT and HINCRBYFLOAT.

pub(super) mod extended;
mod natural;
