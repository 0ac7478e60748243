//! An RDB file: a head with the version, databases with their keys, functions and notes, and a checksum.

use crate::format::{VERSION_VALKEY, has_key_meta, is_known, operation as op};
use crate::read_value::{Elements, module_name, read_value_that_fits, skip_key_meta};
use crate::reader::Reader;
use crate::{Checksum, Error, VERSION, VERSION_FIELD_TTLS, Value, put_length, put_string, put_value, value_type};
use std::io::{Read, Write};

const CHECKSUM_BYTES: usize = 8;
/// Memory after which a part of a large collection ends.
const PART_BYTES_SOFT: usize = 8 << 20;
/// Versions from this one on end with a checksum.
const VERSION_CHECKSUM: u16 = 5;

/// What stands in a file.
#[derive(Debug, PartialEq)]
pub enum Item {
    /// A note about the server that wrote the file.
    Note {
        /// Its name.
        name: Vec<u8>,
        /// What it says.
        text: Vec<u8>,
    },
    /// The keys that follow are of this database.
    Database(u64),
    /// A key. Its value may be of a module, and then was skipped.
    Key {
        /// Its name.
        key: Vec<u8>,
        /// Its value, or a part of it.
        value: Value,
        /// When it expires, and how it was used.
        lifetime: Lifetime,
        /// The next item is the next part.
        more: bool,
    },
    /// A key whose value, a string or a stream, is larger than the reader takes, and was skipped.
    TooLarge {
        /// Its name.
        key: Vec<u8>,
        /// When it expires, and how it was used.
        lifetime: Lifetime,
    },
    /// The source of a library of functions.
    Library(Vec<u8>),
    /// What a module wrote besides values of keys was skipped; its name.
    ModuleNotes(String),
}

/// When a key expires, and how it was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// Seconds since it was last used.
    pub idle_seconds: Option<u64>,
    /// How often it is used, as a logarithm.
    pub frequency: Option<u8>,
}

/// Bytes are taken into the checksum as they are read.
struct Summed<R> {
    input: R,
    sum: Checksum,
    bytes: u64,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(into)?;
        self.sum.update(&into[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Reads a file from its beginning.
pub struct FileReader<R> {
    reader: Reader<Summed<R>>,
    version: u16,
    is_over: bool,
    /// What was told so far of the key that follows.
    lifetime: Lifetime,
    /// A collection of which elements are still to be read.
    open: Option<Open>,
}

/// A collection of which elements are still to be read.
struct Open {
    key: Vec<u8>,
    lifetime: Lifetime,
    elements: Elements,
}

impl<R: Read> FileReader<R> {
    /// Reads the head. Of values of more than `value_bytes_max` bytes, strings and streams will be skipped, and others refused that are in
    /// one piece. `input` should have a buffer.
    pub fn new(input: R, value_bytes_max: usize) -> Result<Self, Error> {
        let mut input = Summed { input, sum: Checksum::default(), bytes: 0 };
        let mut head = [0; 9];
        input.read_exact(&mut head)?;
        let digits = head.strip_prefix(b"REDIS").or_else(|| head.strip_prefix(b"VALKEY"));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok());
        let version: u16 = digits.ok_or(Error::Corrupt("not the head of an RDB file"))?;
        if version == 0 || !is_known(version) {
            return Err(Error::Unknown("RDB version", version.into()));
        }
        let (reader, lifetime) = (Reader::new(input, version, value_bytes_max), Lifetime::default());
        Ok(Self { reader, version, is_over: false, lifetime, open: None })
    }

    /// The version that the head tells.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// How many bytes were read.
    pub fn position(&mut self) -> u64 {
        self.reader.input().bytes
    }

    /// What comes next; `None` at the end, whose checksum fits. Behind an error nothing more can be read. A large collection comes
    /// in several parts.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        if let Some(open) = self.open.take() {
            self.reader.budget().renew();
            return self.part(open).map(Some);
        }
        while !self.is_over {
            self.reader.budget().renew();
            let (reader, lifetime) = (&mut self.reader, &mut self.lifetime);
            match reader.byte()? {
                op::EXPIRE_MS => lifetime.expire_at_ms = Some(reader.time_ms()?),
                op::EXPIRE_SECONDS => {
                    let seconds = i32::from_le_bytes(reader.array()?);
                    lifetime.expire_at_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                }
                op::IDLE => lifetime.idle_seconds = Some(reader.length()?),
                op::FREQUENCY => lifetime.frequency = Some(reader.byte()?),
                op::SIZES => _ = (reader.length()?, reader.length()?),
                op::SLOT_INFO => _ = (reader.length()?, reader.length()?, reader.length()?),
                op::SLOT_IMPORT_OR_KEY_META if self.version >= VERSION_VALKEY => skip_slot_import(reader)?,
                op::SLOT_IMPORT_OR_KEY_META if has_key_meta(self.version) => {
                    let names = skip_key_meta(reader)?.names;
                    if !names.is_empty() {
                        return Ok(Some(Item::ModuleNotes(names)));
                    }
                }
                op::AUX => return Ok(Some(Item::Note { name: reader.string()?, text: reader.string()? })),
                op::DATABASE => return Ok(Some(Item::Database(reader.length()?))),
                op::FUNCTION => return Ok(Some(Item::Library(reader.string()?))),
                op::MODULE_AUX => {
                    let id = reader.length()?;
                    reader.skip_module_parts()?;
                    return Ok(Some(Item::ModuleNotes(module_name(id))));
                }
                op::END => self.end()?,
                of => {
                    let (key, lifetime) = (reader.string()?, std::mem::take(lifetime));
                    if let Some(elements) = Elements::begin(reader, of)? {
                        return self.part(Open { key, lifetime, elements }).map(Some);
                    }
                    return Ok(Some(match read_value_that_fits(reader, of)? {
                        Some(value) => Item::Key { key, value, lifetime, more: false },
                        None => Item::TooLarge { key, lifetime },
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The next part of a collection.
    fn part(&mut self, mut open: Open) -> Result<Item, Error> {
        let value = open.elements.next(&mut self.reader, PART_BYTES_SOFT)?;
        if open.elements.is_over() {
            return Ok(Item::Key { key: open.key, value, lifetime: open.lifetime, more: false });
        }
        let item = Item::Key { key: open.key.clone(), value, lifetime: open.lifetime, more: true };
        self.open = Some(open);
        Ok(item)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.is_over = true;
        if self.version < VERSION_CHECKSUM {
            return Ok(());
        }
        let expected = self.reader.input().sum.value();
        let told = u64::from_le_bytes(self.reader.array::<CHECKSUM_BYTES>()?);
        // 0 is written by a server that makes no checksums.
        if told == 0 || told == expected { Ok(()) } else { Err(Error::Checksum) }
    }
}

/// Skips what Valkey tells of slots that are being moved: a name, and the first and the last slot of each range.
fn skip_slot_import<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    reader.string()?;
    for _ in 0..reader.length()? {
        _ = (reader.length()?, reader.length()?);
    }
    Ok(())
}

/// Writes a file that Redis 7.0 reads.
pub struct FileWriter<W> {
    output: W,
    sum: Checksum,
    /// Bytes that were written.
    bytes: u64,
    piece: Vec<u8>,
}

impl<W: Write> FileWriter<W> {
    /// Writes the head. `has_field_ttls`: fields of hashes may expire, which needs Redis 7.4. `output` should have a buffer.
    pub fn new(output: W, has_field_ttls: bool) -> std::io::Result<Self> {
        let version = if has_field_ttls { VERSION_FIELD_TTLS } else { VERSION };
        let piece = format!("REDIS{version:04}").into_bytes();
        let mut writer = Self { output, sum: Checksum::default(), bytes: 0, piece };
        writer.write_piece()?;
        Ok(writer)
    }

    /// How many bytes were written.
    pub fn position(&self) -> u64 {
        self.bytes
    }

    fn write_piece(&mut self) -> std::io::Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        self.write_raw(&piece)?;
        piece.clear();
        self.piece = piece;
        Ok(())
    }

    /// Writes bytes that were encoded elsewhere.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    /// Writes a note about the server.
    pub fn note(&mut self, name: &str, text: &str) -> std::io::Result<()> {
        self.piece.push(op::AUX);
        put_string(&mut self.piece, name.as_bytes());
        put_string(&mut self.piece, text.as_bytes());
        self.write_piece()
    }

    /// The source of a library of functions.
    pub fn library(&mut self, source: &[u8]) -> std::io::Result<()> {
        self.piece.push(op::FUNCTION);
        put_string(&mut self.piece, source);
        self.write_piece()
    }

    /// The keys that follow are of this database.
    pub fn database(&mut self, number: u64) -> std::io::Result<()> {
        self.piece.push(op::DATABASE);
        put_length(&mut self.piece, number);
        self.write_piece()
    }

    /// A key and its value. A module's value is left out.
    pub fn key(&mut self, key: &[u8], value: &Value, expire_at_ms: Option<u64>) -> std::io::Result<()> {
        let Some(of) = value_type(value) else { return Ok(()) };
        put_key_head(&mut self.piece, of, key, expire_at_ms);
        put_value(&mut self.piece, value);
        self.write_piece()
    }

    /// Ends the file, and hands its output back.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.piece.push(op::END);
        self.write_piece()?;
        self.output.write_all(&self.sum.value().to_le_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Appends what stands before a key's value.
pub(crate) fn put_key_head(out: &mut Vec<u8>, of: u8, key: &[u8], expire_at_ms: Option<u64>) {
    if let Some(at) = expire_at_ms {
        out.push(op::EXPIRE_MS);
        out.extend_from_slice(&at.to_le_bytes());
    }
    out.push(of);
    put_string(out, key);
}

#[cfg(test)]
mod tests;
