//! The first line of a script, which may say how it is to be run: `#!lua flags=no-writes,allow-stale`.

/// What a script says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// It has no header: it is run as scripts of releases before Redis 7 are.
    pub is_plain: bool,
    /// It writes nothing.
    pub no_writes: bool,
    /// It may run although there is no room for more data.
    pub allow_oom: bool,
    /// It cannot run in a cluster.
    pub no_cluster: bool,
}

/// What the first line of a script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptHeader {
    /// Its flags.
    pub flags: ScriptFlags,
    /// Its length, without the end of the line.
    pub bytes: usize,
}

const FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl ScriptHeader {
    /// Reads it; the error is the text of a reply.
    pub fn of(source: &[u8]) -> Result<Self, String> {
        let mut flags = ScriptFlags::default();
        if !source.starts_with(b"#!") {
            flags.is_plain = true;
            return Ok(Self { flags, bytes: 0 });
        }
        let bytes = source.iter().position(|&b| b == b'\n').ok_or("ERR Invalid script shebang")?;
        let line = String::from_utf8_lossy(&source[..bytes]);
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        for word in words {
            let Some(list) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}"));
            };
            for flag in list.split(',').filter(|flag| !flag.is_empty()) {
                if !FLAGS.contains(&flag) {
                    return Err(format!("ERR Unexpected flag in script shebang: {flag}"));
                }
                flags.no_writes |= flag == "no-writes";
                flags.allow_oom |= flag == "allow-oom";
                flags.no_cluster |= flag == "no-cluster";
            }
        }
        Ok(Self { flags, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_refused_in_the_words_of_redis() {
        let plain = ScriptFlags { is_plain: true, ..ScriptFlags::default() };
        let no_writes = ScriptFlags { no_writes: true, allow_oom: true, ..ScriptFlags::default() };
        for (source, flags, bytes) in [
            ("return 1", plain, 0),
            ("", plain, 0),
            ("#!lua\nreturn 1", ScriptFlags::default(), 5),
            ("#!lua flags=\nreturn 1", ScriptFlags::default(), 12),
            ("#!lua flags=allow-oom,no-writes\nreturn 1", no_writes, 31),
        ] {
            assert_eq!(ScriptHeader::of(source.as_bytes()), Ok(ScriptHeader { flags, bytes }), "{source}");
        }
        for (source, error) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!not-lua\nreturn 1", "ERR Unexpected engine in script shebang: #!not-lua"),
            ("#!lua flags=bad\nreturn 1", "ERR Unexpected flag in script shebang: bad"),
            ("#!lua name=x\nreturn 1", "ERR Unknown lua shebang option: name=x"),
        ] {
            assert_eq!(ScriptHeader::of(source.as_bytes()), Err(error.to_owned()), "{source}");
        }
    }
}
