//! What comes over a link that keeps order.

/// What comes to one end of a link.
#[derive(Clone, Debug)]
pub enum WireNews {
    /// The link is there.
    Up,
    /// The link has broken.
    Down,
    /// A message.
    Message(Vec<u8>),
}
