//! The libraries of functions that a node knows the store to have: all of them, as of one version.

use super::engine::{LoadedLibrary, check_library};
use super::functions::FunctionInfo;
use super::library_source::LibraryHeader;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use vocab::limits::VALUE_BYTES_MAX;
use vocab::{Reader, put_bytes, put_varint};
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of a dump by a release before: its kind and version.
const DUMP_MARK: &[u8] = b"BASALTF\x01";
const MALFORMED: &str = "ERR failed loading the given functions payload";

/// One library.
#[derive(Debug)]
pub struct Library {
    /// Its code, with its header.
    pub source: Vec<u8>,
    /// Its name and functions.
    pub loaded: LoadedLibrary,
}

/// A set of libraries. No two of them have a function of the same name. Names of functions ignore case; names of libraries do not.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// The libraries by the names of their functions, in lower case.
    by_function: BTreeMap<String, Arc<Library>>,
}

impl Libraries {
    /// The libraries by their own names.
    pub fn all(&self) -> impl Iterator<Item = &Library> {
        self.by_name.values().map(|library| &**library)
    }

    /// How many libraries and functions there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.by_name.len(), self.by_function.len())
    }

    /// Bytes of their sources.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all().map(|library| library.source.len()).sum()
    }

    /// The library that has a function, and the function.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<(&Library, &FunctionInfo)> {
        let library = self.by_function.get(&name.to_ascii_lowercase())?;
        let info = library.loaded.functions.iter().find(|info| info.name.eq_ignore_ascii_case(name))?;
        Some((&**library, info))
    }

    /// Adds a library and answers its name; the error is the text of a reply.
    pub fn add(&mut self, source: &[u8], replace: bool) -> Result<String, String> {
        // As in Redis, before its code runs.
        if !replace
            && let Some(name) = LibraryHeader::of(source).ok().map(|header| header.name)
            && self.by_name.contains_key(&name)
        {
            return Err(format!("ERR Library '{name}' already exists"));
        }
        // The code of a library has the same result each time, so it is not run again.
        let known = self.all_shared().find(|library| library.source == source).cloned();
        let library = match known {
            Some(library) => library,
            None => Arc::new(Library { source: source.to_vec(), loaded: check_library(source)? }),
        };
        self.add_loaded(library, replace)
    }

    fn add_loaded(&mut self, library: Arc<Library>, replace: bool) -> Result<String, String> {
        let name = library.loaded.name.clone();
        let old = self.by_name.get(&name);
        if old.is_some() && !replace {
            return Err(format!("ERR Library '{name}' already exists"));
        }
        let of = |info: &FunctionInfo| self.by_function.get(&info.name.to_ascii_lowercase());
        let is_taken = |info: &&FunctionInfo| of(info).is_some_and(|of| of.loaded.name != name);
        if let Some(taken) = library.loaded.functions.iter().find(is_taken) {
            return Err(format!("ERR Function {} already exists", taken.name));
        }
        self.remove(&name);
        for info in &library.loaded.functions {
            self.by_function.insert(info.name.to_ascii_lowercase(), library.clone());
        }
        self.by_name.insert(name.clone(), library);
        Ok(name)
    }

    /// Adds the libraries of another set. On an error, the text of a reply, none is added.
    pub fn join(&mut self, others: &Self, replace: bool) -> Result<(), String> {
        let mut joined = self.clone();
        // A function may have come to another library: all that are replaced go first.
        for name in others.by_name.keys() {
            if joined.remove(name) && !replace {
                return Err(format!("ERR Library {name} already exists"));
            }
        }
        for library in others.all_shared() {
            joined.add_loaded(library.clone(), false)?;
        }
        *self = joined;
        Ok(())
    }

    fn all_shared(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Removes a library; false if no library has that name.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(old) = self.by_name.remove(name) else { return false };
        for info in &old.loaded.functions {
            self.by_function.remove(&info.name.to_ascii_lowercase());
        }
        true
    }

    /// Their sources in one piece: varint count, each varint length and bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.by_name.len() as u64);
        self.all().for_each(|library| put_bytes(&mut bytes, &library.source));
        bytes
    }

    /// What FUNCTION DUMP returns, as Redis 7 does.
    #[must_use]
    pub fn dump(&self) -> Vec<u8> {
        rdb::write_libraries(self.sources())
    }

    /// What they were loaded from.
    pub fn sources(&self) -> impl Iterator<Item = &[u8]> {
        self.all().map(|library| &*library.source)
    }

    /// Reads what FUNCTION DUMP of this release, of Redis or of releases before has made; the error is the text of a reply.
    pub fn of_dump(bytes: &[u8]) -> Result<Self, String> {
        const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
        if bytes.starts_with(DUMP_MARK) {
            let (body, sum) = bytes.split_at_checked(bytes.len().saturating_sub(8)).ok_or(WRONG)?;
            let encoded = body.strip_prefix(DUMP_MARK).ok_or(WRONG)?;
            return if xxh3_64(body).to_le_bytes() == *sum { Self::decode(encoded) } else { Err(WRONG.to_owned()) };
        }
        let (version, body) = rdb::checked_body(bytes).ok_or(WRONG)?;
        let mut libraries = Self::default();
        for source in rdb::read_libraries(version, body, VALUE_BYTES_MAX).map_err(|_| MALFORMED)? {
            libraries.add(&source, false)?;
        }
        Ok(libraries)
    }

    /// Reads them; the error is the text of a reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        Self::default().decode_next(bytes)
    }

    /// Reads a newer version of this set: the code of libraries that are in both is not run again.
    pub fn decode_next(&self, bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let mut libraries = Self::default();
        let known: HashMap<&[u8], &Arc<Library>> =
            self.all_shared().map(|library| (&library.source[..], library)).collect();
        for _ in 0..reader.count(1).map_err(|_| MALFORMED)? {
            let source = reader.bytes().map_err(|_| MALFORMED)?;
            match known.get(source) {
                Some(library) => libraries.add_loaded((*library).clone(), false)?,
                None => libraries.add(source, false)?,
            };
        }
        reader.end().map_err(|_| MALFORMED)?;
        Ok(libraries)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn library(name: &str, function: &str) -> Vec<u8> {
        format!("#!lua name={name}\nredis.register_function('{function}', function(keys, args) return 1 end)")
            .into_bytes()
    }

    #[test]
    fn functions_have_one_library_and_what_is_encoded_is_read() {
        let mut libraries = Libraries::default();
        assert_eq!(libraries.add(&library("a", "f"), false), Ok("a".to_owned()));
        assert_eq!(libraries.add(&library("a", "g"), false), Err("ERR Library 'a' already exists".to_owned()));
        assert_eq!(libraries.add(&library("b", "f"), false), Err("ERR Function f already exists".to_owned()));
        assert_eq!(libraries.add(&library("b", "F"), false), Err("ERR Function F already exists".to_owned()));
        assert_eq!(libraries.add(&library("A", "g"), false), Ok("A".to_owned()));
        assert!(libraries.function("G").is_some_and(|(of, info)| of.loaded.name == "A" && info.name == "g"));
        assert!(libraries.remove("A") && libraries.function("G").is_none());
        assert_eq!(libraries.add(&library("a", "g"), true), Ok("a".to_owned()));
        assert!(libraries.function("f").is_none() && libraries.function("g").is_some());
        assert_eq!(libraries.add(&library("b", "f"), false), Ok("b".to_owned()));
        let read = Libraries::decode(&libraries.encode()).unwrap();
        assert_eq!((read.counts(), read.encode()), ((2, 2), libraries.encode()));
        let again = read.decode_next(&libraries.encode()).unwrap();
        assert_eq!(again.encode(), libraries.encode());
        assert!(again.all_shared().zip(read.all_shared()).all(|(one, other)| Arc::ptr_eq(one, other)));
        let text = Err("ERR Library a already exists".to_owned());
        assert_eq!(libraries.join(&read, false), text);
        assert_eq!(libraries.join(&read, true), Ok(()));
        assert!(libraries.remove("b") && !libraries.remove("b") && libraries.counts() == (1, 1));
        let mut others = Libraries::default();
        assert!(others.add(&library("c", "h"), false).is_ok() && others.add(&library("d", "G"), false).is_ok());
        assert_eq!(libraries.join(&others, true), Err("ERR Function G already exists".to_owned()));
        assert_eq!(libraries.counts(), (1, 1), "nothing of it is added");
        // Each function is in the other library.
        let (mut before, mut after) = (Libraries::default(), Libraries::default());
        assert!(before.add(&library("one", "f"), false).is_ok() && before.add(&library("two", "g"), false).is_ok());
        assert!(after.add(&library("one", "g"), false).is_ok() && after.add(&library("two", "f"), false).is_ok());
        assert!(before.join(&after, false).is_err());
        assert_eq!(before.join(&after, true), Ok(()));
        assert_eq!(before.encode(), after.encode());
        assert!(before.function("f").is_some_and(|(of, _)| of.loaded.name == "two"));
        assert!(Libraries::decode(b"\x01").is_err());
        let dump = libraries.dump();
        assert_eq!(Libraries::of_dump(&dump).unwrap().encode(), libraries.encode());
        assert!(Libraries::of_dump(&dump[1..]).is_err() && Libraries::of_dump(b"").is_err());
        let mut before = [DUMP_MARK, &libraries.encode()].concat();
        before.extend(xxh3_64(&before).to_le_bytes());
        assert_eq!(Libraries::of_dump(&before).unwrap().encode(), libraries.encode());
        assert!(Libraries::of_dump(&before[..before.len() - 1]).is_err());
    }

    #[test]
    fn a_library_registers_functions_and_does_nothing_else() {
        for (code, error) in [
            ("return 1", "ERR No functions registered"),
            ("redis.call('PING')", "attempted to access nonexistent global variable 'call'"),
            ("redis.setresp(3)", "attempted to access nonexistent global variable 'setresp'"),
            ("math.random()", "attempted to access nonexistent global variable 'math'"),
            ("return getmetatable(_G)", "attempted to access nonexistent global variable 'getmetatable'"),
            ("redis.register_function('f')", "calling redis.register_function with a single argument"),
            ("redis.register_function('f', 1)", "second argument to redis.register_function must be a function"),
            ("redis.register_function{function_name='f', callback=function() end, flags={'no'}}", "unknown flag given"),
            ("while true do end", "FUNCTION LOAD timeout"),
            ("x = 1", "Attempt to modify a readonly table"),
            ("return {", "ERR Error compiling function: user_function:2:"),
        ] {
            let text = check_library(format!("#!lua name=l\n{code}").as_bytes()).unwrap_err();
            assert!(text.contains(error), "{code}: {text}");
        }
        let text = check_library(b"#!lua name=l\nx = 1").unwrap_err();
        assert_eq!(text, "ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table");
        let text = check_library(b"#!lua name=l\nredis.register_function('f')").unwrap_err();
        assert!(text.starts_with("ERR Error registering functions: ERR calling redis.register_function"), "{text}");
        let code = b"#!lua name=l\nredis.register_function{function_name='f', description='d', callback=function() end, flags={'allow-stale','no-writes'}}";
        let loaded = check_library(code).unwrap();
        let info = FunctionInfo {
            name: "f".to_owned(),
            description: Some("d".to_owned()),
            flags: vec!["no-writes", "allow-stale"],
        };
        assert_eq!(loaded, LoadedLibrary { name: "l".to_owned(), functions: vec![info] });
    }
}
