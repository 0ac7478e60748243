//! SCAN, KEYS, RANDOMKEY and DBSIZE: commands over all keys of the store.

/// Where the scans under way on a node stand: the last key that each live cursor stands for.
#[derive(Debug, Default)]
pub struct ScanCursors {}
