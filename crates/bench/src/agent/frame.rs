//! Frames: a length, and so many bytes of JSON. Both are bounded.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use vocab::limits::BENCH_FRAME_BYTES_MAX;

const HEAD: usize = 4;
const READ_BYTES: usize = 64 * 1024;

/// Writes a message as one frame.
///
/// # Errors
/// It is longer than a frame may be, or the other side is gone.
pub(crate) fn write_frame(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEAD;
    if length > BENCH_FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes is too long")));
    }
    frame[..HEAD].copy_from_slice(&(length as u32).to_le_bytes());
    out.write_all(&frame)
}

/// Reads frames from a stream that may have nothing to say for a while.
#[derive(Default)]
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
}

impl FrameReader {
    /// The next message of at most `max` bytes; none when nothing whole has come before the stream's read timeout.
    ///
    /// # Errors
    /// The other side is gone, or does not speak as it should.
    pub(crate) fn next<T: DeserializeOwned>(&mut self, stream: &mut impl Read, max: usize) -> io::Result<Option<T>> {
        let max = max.min(BENCH_FRAME_BYTES_MAX);
        loop {
            if let Some(head) = self.buffer.first_chunk::<HEAD>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > max {
                    let text = format!("a frame of {length} bytes, where at most {max} are expected");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                if let Some(body) = self.buffer.get(HEAD..HEAD + length) {
                    let message = serde_json::from_slice(body)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("a frame: {error}")))?;
                    self.buffer.drain(..HEAD + length);
                    return Ok(Some(message));
                }
            }
            let filled = self.buffer.len();
            self.buffer.resize(filled + READ_BYTES, 0);
            let read = stream.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::Prng;

    /// Gives a few bytes at a time, with pauses between.
    struct Trickle<'a>(&'a [u8], bool);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = self.0.len().min(3).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn frames_come_whole_however_they_arrive() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &"one").unwrap();
        write_frame(&mut bytes, &vec![1, 2, 3]).unwrap();
        let (mut stream, mut reader) = (Trickle(&bytes, false), FrameReader::default());
        let mut patient = 0;
        let one: String = loop {
            match reader.next(&mut stream, 100).unwrap() {
                Some(found) => break found,
                None => patient += 1,
            }
        };
        assert!(one == "one" && patient > 1);
        let two: Vec<u8> =
            std::iter::from_fn(|| Some(reader.next(&mut stream, 100).unwrap())).flatten().next().unwrap();
        assert_eq!(two, [1, 2, 3]);
        let end = loop {
            match reader.next::<String>(&mut stream, 100) {
                Ok(found) => assert_eq!(found, None),
                Err(error) => break error,
            }
        };
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_too_long_or_no_json_is_refused() {
        let refused = |bytes: &[u8]| {
            let mut bytes = bytes;
            FrameReader::default().next::<String>(&mut bytes, 1000).unwrap_err().kind()
        };
        assert_eq!(refused(&[0xff; 8]), io::ErrorKind::InvalidData);
        assert_eq!(refused(&[2, 0, 0, 0, b'{', b'x']), io::ErrorKind::InvalidData);
        assert_eq!(refused(&[9, 0, 0, 0, b'"']), io::ErrorKind::UnexpectedEof);
        let mut prng = Prng::new(3);
        for _ in 0..2000 {
            let mut bytes = vec![0; prng.below(40) as usize];
            prng.fill(&mut bytes);
            let mut bytes = &bytes[..];
            assert!(FrameReader::default().next::<super::super::ToAgent>(&mut bytes, 1000).is_err());
        }
        assert!(write_frame(&mut Vec::new(), &"x".repeat(BENCH_FRAME_BYTES_MAX)).is_err());
    }
}
