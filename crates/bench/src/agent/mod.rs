//! `basalt bench agent`: makes a part of the load for a coordinator, which is another process, here or elsewhere.

pub(crate) mod as_base64;
