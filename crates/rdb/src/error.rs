//! Why bytes are not what they should be.

use std::fmt;

/// Why a value or a file could not be read.
#[derive(Debug)]
pub enum Error {
    /// The bytes end within a value.
    Truncated,
    /// The bytes contradict the format; what is wrong.
    Corrupt(&'static str),
    /// The checksum at the end is another one than that of the bytes.
    Checksum,
    /// A format that this program does not know: the number of a version, of a type or of an operation.
    Unknown(&'static str, u64),
    /// A value is larger than the reader was told to take, in bytes.
    TooLarge(usize),
    /// The bytes could not be read.
    Io(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the data ends within a value"),
            Self::Corrupt(what) => write!(f, "the data is damaged: {what}"),
            Self::Checksum => write!(f, "the checksum does not fit the data"),
            Self::Unknown(what, number) => write!(f, "{what} {number} is not known"),
            Self::TooLarge(most) => write!(f, "a value has more than {most} bytes"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}
