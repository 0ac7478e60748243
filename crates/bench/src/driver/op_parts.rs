//! One kind of operation, as it travels from an agent to its coordinator.

use serde::{Deserialize, Serialize};

/// One kind of operation, as it travels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpParts {
    /// As YCSB spells it; `CLEANUP` for the client's own closing work.
    pub op: String,
    /// Histograms: from the start, from the intended start, and of failures. Empty where there are none.
    #[serde(with = "crate::as_base64")]
    pub histograms: [Vec<u8>; 3],
    /// What was counted.
    pub counts: Vec<(String, u64)>,
    /// Errors by their kind.
    pub errors: Vec<(String, u64)>,
    /// What the store said the first time, by the kind of error.
    #[serde(default)]
    pub error_texts: Vec<(String, String)>,
    /// The first wrong answer in words; empty where there was none.
    #[serde(default)]
    pub first_wrong: String,
}
