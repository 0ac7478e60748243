//! What a command does to a key; bits of `KeySpec::flags`.

/// Only reads it.
pub const RO: u32 = 1;
/// Reads and writes it.
pub const RW: u32 = 1 << 1;
/// Overwrites it without regard to what it held.
pub const OW: u32 = 1 << 2;
/// Removes it.
pub const RM: u32 = 1 << 3;
/// Returns or copies what the user stored.
pub const ACCESS: u32 = 1 << 4;
/// Changes what the user stored.
pub const UPDATE: u32 = 1 << 5;
/// Only ever adds data.
pub const INSERT: u32 = 1 << 6;
/// Deletes data.
pub const DELETE: u32 = 1 << 7;
/// The specification does not tell all keys.
pub const INCOMPLETE: u32 = 1 << 8;
/// Depends on the arguments.
pub const VARIABLE: u32 = 1 << 9;
/// It is no key, but is sent where a key of its slot is.
pub const NOT_KEY: u32 = 1 << 10;

/// All of them, with the names that COMMAND INFO gives them, in its order.
pub(crate) const NAMES: &[(u32, &str)] = &[
    (RO, "RO"),
    (RW, "RW"),
    (OW, "OW"),
    (RM, "RM"),
    (ACCESS, "access"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (DELETE, "delete"),
    (INCOMPLETE, "incomplete"),
    (VARIABLE, "variable_flags"),
    (NOT_KEY, "not_key"),
];
