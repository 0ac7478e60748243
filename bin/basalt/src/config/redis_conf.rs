//! Files of Redis's own form (`redis.conf`): a setting a line, its arguments quoted as `redis-cli` quotes them.

use super::file::{FileSettings, Note};
use super::given::{Given, Origin, closest, find};
use super::include::included;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Files within files.
const DEPTH_MAX: usize = 16;
/// Files that one file includes, with all that these include.
const FILES_MAX: usize = 256;

/// Settings whose lines add to each other.
const REPEATED: [&str; 2] = ["save", "client-output-buffer-limit"];

/// Words of Redis that Basalt has no setting for, and what an operator does instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("rename-command", "commands keep their names: take a command from users by ACL"),
    ("user", "users are the store's: make them with ACL SETUSER, or name a file of such lines as `aclfile`"),
    ("loadmodule", "there are no modules"),
    ("unixsocket", "there are no sockets in the file system: clients connect by TCP"),
    ("dbfilename", "there is no dump file: `basalt ctl backup` and `basalt export` write copies"),
    ("appendfilename", "there is no append-only file: writes are in the replicated log"),
    ("appenddirname", "there is no append-only file: writes are in the replicated log"),
    ("masterauth", "nodes know each other by `peer-secret`"),
    ("replicaof", "replicas are made by the store: see `peer-listen` and `join`"),
    ("slaveof", "replicas are made by the store: see `peer-listen` and `join`"),
    ("cluster-config-file", "the map of the cluster is in the data directory"),
    ("cluster-announce-ip", "see `announce-host`"),
    ("cluster-announce-port", "see `announce-port`"),
    ("cluster-announce-tls-port", "see `announce-tls-port`"),
    ("tls-client-cert-file", "nodes show `tls-cert-file` when they call, too"),
    ("tls-client-key-file", "nodes show `tls-cert-file` when they call, too"),
    ("tls-ciphers", "rustls has sound suites alone: there is nothing to choose"),
    ("tls-ciphersuites", "rustls has sound suites alone: there is nothing to choose"),
    ("tls-prefer-server-ciphers", "the node's order holds"),
    ("tls-session-cache-timeout", "sessions make room for newer ones: see `tls-session-cache-size`"),
    ("tls-dh-params-file", "keys are agreed on by elliptic curves"),
    ("pidfile", "the process stays in the foreground"),
    ("io-threads", "see `workers`"),
];

/// Reads a file's text. `read` reads the files that it includes.
pub fn parse(path: &Arc<Path>, text: &str, read: &mut dyn FnMut(&Path) -> Result<String, String>) -> FileSettings {
    let within = vec![plain(path)];
    let mut reader = Reader { settings: FileSettings::default(), door: Door::default(), files: 1, within, read };
    reader.file(path, text, 0);
    let Reader { mut settings, door, .. } = reader;
    settings.given.extend(door.settings());
    settings
}

/// Where Redis listens: two lines there, an address here.
#[derive(Default)]
struct Door {
    port: Option<(String, Origin)>,
    bind: Option<(String, Origin)>,
    is_cluster: bool,
}

impl Door {
    /// A Redis that is no cluster becomes the listener of databases, a node of a cluster the one of the store.
    fn settings(self) -> Option<Given> {
        let origin = self.port.as_ref().or(self.bind.as_ref()).map(|(_, origin)| origin.clone())?;
        let port = self.port.map_or_else(|| "6379".to_owned(), |(port, _)| port);
        let bind = self.bind.map_or_else(|| "127.0.0.1".to_owned(), |(bind, _)| bind);
        // Redis takes several addresses, and those after `-` only if there are such.
        let host = bind.split_whitespace().find(|host| !host.starts_with('-')).unwrap_or("127.0.0.1").to_owned();
        let host = if host == "*" { "0.0.0.0".to_owned() } else { host };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let name = if self.is_cluster { "listen" } else { "database-listen" };
        (port != "0").then(|| Given { name: name.to_owned(), value: format!("{host}:{port}"), origin })
    }
}

struct Reader<'a> {
    settings: FileSettings,
    door: Door,
    files: usize,
    /// The file that is read, behind those that include it.
    within: Vec<PathBuf>,
    read: &'a mut dyn FnMut(&Path) -> Result<String, String>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Arc<Path>, text: &str, depth: usize) {
        // Editors of Windows begin files with a mark of their byte order.
        for (at, line) in text.trim_start_matches('\u{FEFF}').lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let at = ConfLine { path: path.clone(), line: at + 1 };
            match words(line_text) {
                Some(words) => self.line(&at, &words, depth),
                None => self.settings.errors.push(at.note("quotes do not match".to_owned())),
            }
        }
    }

    fn line(&mut self, at: &ConfLine, words: &[String], depth: usize) {
        let Some((name, arguments)) = words.split_first() else { return };
        let name = name.to_ascii_lowercase();
        let value = arguments.join(" ");
        match name.as_str() {
            "include" => self.include(at, arguments, depth),
            "port" => self.door.port = Some((value, at.origin())),
            "bind" => self.door.bind = Some((value, at.origin())),
            "cluster-enabled" => self.door.is_cluster = value.eq_ignore_ascii_case("yes"),
            "appendonly" if value.eq_ignore_ascii_case("no") => self.warn(at, "every write goes to the replicated log"),
            "appendonly" => (),
            "appendfsync" if !value.eq_ignore_ascii_case("always") => {
                self.warn(at, "writes are on disk before they are answered; `durability nosync` is nearest to this");
            }
            "daemonize" if value.eq_ignore_ascii_case("yes") => self.warn(at, "the process stays in the foreground"),
            _ => self.setting(at, name, value),
        }
    }

    fn setting(&mut self, at: &ConfLine, name: String, value: String) {
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(word, _)| *word == name) {
            return self.warn(at, &format!("{name}: {instead}"));
        }
        let Some(setting) = find(&name) else {
            let is_it = closest(&name).map_or_else(String::new, |other| format!("; is it `{other}`?"));
            return self.warn(at, &format!("{name}: Basalt has no such setting, and the line has no effect{is_it}"));
        };
        let earlier = self.settings.given.iter_mut().find(|one| REPEATED.contains(&setting.name) && one.name == name);
        match earlier {
            Some(earlier) if !value.is_empty() => {
                earlier.value = format!("{} {value}", earlier.value).trim_start().to_owned();
            }
            Some(earlier) => earlier.value.clear(),
            None => self.settings.given.push(Given { name, value, origin: at.origin() }),
        }
    }

    fn include(&mut self, at: &ConfLine, paths: &[String], depth: usize) {
        let beside = at.path.parent().unwrap_or(Path::new(""));
        for (path, file) in
            paths.iter().flat_map(|path| included(path, beside).into_iter().map(move |file| (path, file)))
        {
            self.files += 1;
            if depth + 1 >= DEPTH_MAX || self.files > FILES_MAX {
                let text = format!("include {path}: at most {DEPTH_MAX} files deep and {FILES_MAX} in all");
                return self.settings.errors.push(at.note(text));
            }
            let place = plain(&file);
            if self.within.contains(&place) {
                self.settings.errors.push(at.note(format!("include {path}: {} includes itself", place.display())));
                continue;
            }
            match (self.read)(&file) {
                Ok(text) => {
                    self.within.push(place);
                    self.file(&Arc::from(file.as_path()), &text, depth + 1);
                    self.within.pop();
                }
                Err(e) => self.settings.errors.push(at.note(format!("include {e}"))),
            }
        }
    }

    fn warn(&mut self, at: &ConfLine, text: &str) {
        self.settings.warnings.push(at.note(text.to_owned()));
    }
}

/// A path without `.` and `..`, as far as its words say.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, component| {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            other => plain.push(other),
        }
        plain
    })
}

/// A line of a file.
struct ConfLine {
    path: Arc<Path>,
    line: usize,
}

impl ConfLine {
    fn origin(&self) -> Origin {
        Origin::File { path: self.path.clone(), line: self.line }
    }

    fn note(&self, text: String) -> Note {
        Note { path: self.path.clone(), line: self.line, text }
    }
}

/// The words of a line: bare, or in quotes with the escapes of Redis. `None`: a quote has no end, or no space after it.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' => quoted(&rest[1..])?,
            '\'' => single_quoted(&rest[1..])?,
            _ => bare(rest),
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return None;
        }
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

/// A word without quotes, and what follows.
fn bare(text: &str) -> (String, &str) {
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word.to_owned(), rest)
}

/// A word in double quotes, without the first, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => word.push('\n'),
                'r' => word.push('\r'),
                't' => word.push('\t'),
                'b' => word.push('\u{8}'),
                'a' => word.push('\u{7}'),
                'x' => {
                    let digits = text.get(at + 2..at + 4)?;
                    word.push(char::from(u8::from_str_radix(digits, 16).ok()?));
                    chars.nth(1);
                }
                other => word.push(other),
            },
            _ => word.push(c),
        }
    }
    None
}

/// A word in single quotes: `\'` is the one escape.
fn single_quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((word, &text[at + 1..])),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                word.push('\'');
            }
            _ => word.push(c),
        }
    }
    None
}

/// Writes new values of settings into a file's text: the last line of a setting has the new value, earlier ones go, and what
/// the file lacks is added at the end.
pub fn rewrite(text: &str, changes: &[(&str, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in changes {
        let is_it = |line: &String| {
            let word = line.split_whitespace().next().unwrap_or_default();
            find(word).is_some_and(|setting| setting.name == *name)
        };
        let line = format!("{name} {}", quote(value));
        match lines.iter().rposition(is_it) {
            Some(last) => {
                lines[last] = line;
                let mut at = 0;
                lines.retain(|line| {
                    at += 1;
                    at > last || !is_it(line)
                });
            }
            None => lines.push(line),
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// A value as a line has it: what has spaces is several arguments in Redis too, unless quotes are needed.
fn quote(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"'\\#".contains(c) || c == ' ';
    if !value.is_empty() && value.chars().all(is_plain) && value.trim() == value {
        return value.to_owned();
    }
    let escaped: String =
        value.chars().flat_map(|c| if "\"\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parsed(text: &str) -> FileSettings {
        let mut read = |path: &Path| match path.to_str() {
            Some("etc/more.conf") => Ok("timeout 7\ninclude more.conf\n".to_owned()),
            Some("etc/d/../loop.conf") => Ok("hz 5\ninclude ./redis.conf\n".to_owned()),
            // As many as are asked for, each within another one.
            Some(deep) if deep.ends_with("deep") => Ok(format!("timeout 7\ninclude {}/deep\n", deep.len())),
            _ => Err(format!("{}: no such file", path.display())),
        };
        parse(&Arc::from(Path::new("etc/redis.conf")), text, &mut read)
    }

    fn pairs(settings: &FileSettings) -> Vec<(&str, &str)> {
        settings.given.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect()
    }

    #[test]
    fn the_lines_of_a_redis() {
        let settings = parsed(
            "# Redis\nbind 127.0.0.1 -::1\nport 6380\nrequirepass \"a b\\\"c\"\nsave 900 1\nsave 300 10\nmaxmemory 100mb\n\
             client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit pubsub 32mb 8mb 60\nappendfsync everysec\n\
             loadmodule x.so\nno-such-word 1\n",
        );
        assert_eq!(settings.errors, []);
        let expected = [
            ("requirepass", "a b\"c"),
            ("save", "900 1 300 10"),
            ("maxmemory", "100mb"),
            ("client-output-buffer-limit", "normal 0 0 0 pubsub 32mb 8mb 60"),
            ("database-listen", "127.0.0.1:6380"),
        ];
        assert_eq!(pairs(&settings), expected);
        let warned: Vec<_> = settings.warnings.iter().map(|note| note.line).collect();
        assert_eq!(warned, [10, 11, 12]);
        assert_eq!(pairs(&parsed("\u{FEFF}timeout 7\r\nhz 5\r\n")), [("timeout", "7"), ("hz", "5")]);
        assert_eq!(pairs(&parsed("cluster-enabled yes\nport 7001\nbind *\n")), [("listen", "0.0.0.0:7001")]);
    }

    #[test]
    fn files_within_files_end() {
        let settings = parsed("include 0/deep\n");
        assert_eq!(settings.given.len(), DEPTH_MAX - 1);
        assert!(settings.errors[0].text.contains("/deep: at most 16 files deep"), "{settings:?}");
        for (text, told) in [
            ("include more.conf\n", "etc/more.conf:2: include more.conf: etc/more.conf includes itself"),
            ("include d/../loop.conf\n", "etc/d/../loop.conf:2: include ./redis.conf: etc/redis.conf includes itself"),
        ] {
            let settings = parsed(text);
            let errors: Vec<_> = settings.errors.iter().map(ToString::to_string).collect();
            assert_eq!((settings.given.len(), errors), (1, vec![told.to_owned()]), "{text}");
        }
        assert_eq!(parsed("include d/../loop.conf\ninclude none.conf\n").errors.len(), 2, "others are told as well");
        let settings = parsed("include none.conf\nhz \"1\n");
        let errors: Vec<_> = settings.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["etc/redis.conf:1: include etc/none.conf: no such file", "etc/redis.conf:2: quotes do not match"]
        );
    }

    #[test]
    fn words_are_quoted_as_in_redis() {
        for (line, expected) in [
            ("a  b", Some(vec!["a", "b"])),
            ("a \"\"", Some(vec!["a", ""])),
            ("a \"\\x41\\n\"", Some(vec!["a", "A\n"])),
            ("a 'it\\'s'", Some(vec!["a", "it's"])),
            ("a \"b", None),
            ("a \"b\"c", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn a_rewrite_keeps_what_is_around() {
        let text = "# ours\nhz 10\nport 6379\nhz 20\n";
        let changes = [("hz", "50".to_owned()), ("requirepass", "a\"b".to_owned()), ("save", String::new())];
        let rewritten = rewrite(text, &changes);
        assert_eq!(rewritten, "# ours\nport 6379\nhz 50\nrequirepass \"a\\\"b\"\nsave \"\"\n");
        assert_eq!(pairs(&parsed(&rewritten))[1], ("requirepass", "a\"b"));
    }
}
