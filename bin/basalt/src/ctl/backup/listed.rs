//! What a place of backups holds.

/// A file as a place lists it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// What a bucket tells of the content: another content has another tag.
    pub(crate) tag: Option<String>,
}
