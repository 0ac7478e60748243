//! The first line of a library of functions: `#!lua name=mylib`.

/// What a library says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LibraryHeader {
    /// Its name.
    pub(super) name: String,
    /// The length of the line, without its end.
    pub(super) bytes: usize,
}

impl LibraryHeader {
    /// Reads it; the error is the text of a reply.
    pub(super) fn of(source: &[u8]) -> Result<Self, String> {
        if !source.starts_with(b"#!") {
            return Err("ERR Missing library metadata".to_owned());
        }
        let bytes = source.iter().position(|&b| b == b'\n').ok_or("ERR Invalid library metadata")?;
        let line = String::from_utf8_lossy(&source[..bytes]);
        let mut words = line.split_ascii_whitespace();
        // The name of the engine follows the mark at once, or is empty.
        let engine = words.next().and_then(|word| word.strip_prefix("#!")).ok_or("ERR Invalid library metadata")?;
        let mut name: Option<&str> = None;
        for word in words {
            let (key, value) = word.split_at(word.len().min("name=".len()));
            if !key.eq_ignore_ascii_case("name=") {
                return Err(format!("ERR Invalid metadata value given: {word}"));
            }
            if name.is_some() {
                return Err("ERR Invalid metadata value, name argument was given multiple times".to_owned());
            }
            name = Some(value);
        }
        let name = name.ok_or("ERR Library name was not given")?.trim_matches(['"', '\'']);
        if !is_name(name.as_bytes()) {
            return Err(
                "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                        character long"
                    .to_owned(),
            );
        }
        if !engine.eq_ignore_ascii_case("lua") {
            return Err(format!("ERR Engine '{engine}' not found"));
        }
        Ok(Self { name: name.to_owned(), bytes })
    }
}

/// Whether a word can name a library or a function.
pub(super) fn is_name(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_libraries_are_read_and_refused_in_the_words_of_redis() {
        let read = |source: &str| LibraryHeader::of(source.as_bytes());
        assert_eq!(read("#!lua name=a_1\nx"), Ok(LibraryHeader { name: "a_1".to_owned(), bytes: 14 }));
        assert_eq!(read("#!LUA NAME=a\nx"), Ok(LibraryHeader { name: "a".to_owned(), bytes: 12 }));
        for (source, error) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua\nx", "ERR Library name was not given"),
            ("#!lua name=a name=b\nx", "ERR Invalid metadata value, name argument was given multiple times"),
            ("#!lua x=a\nx", "ERR Invalid metadata value given: x=a"),
            ("#!no name=a\nx", "ERR Engine 'no' not found"),
            ("#! name=a\nx", "ERR Engine '' not found"),
        ] {
            assert_eq!(read(source), Err(error.to_owned()), "{source}");
        }
        assert!(read("#!lua name=a-b\nx").is_err_and(|text| text.contains("can only contain")));
    }
}
