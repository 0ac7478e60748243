//! A package for RPM: a lead that only its beginning is read of, a header with sums of what follows, one with all that is known of the
//! package and its files, and the files as an archive of cpio.

use super::digest::sha256;
use super::release::Release;
use super::tar::gzip;
use super::texts::{DESCRIPTION, MAINTAINER, SUMMARY};
use super::tree::{Item, Node, Tree};
use std::collections::BTreeMap;

/// Regions: what a signature would hold for. They come first, and their trailer last.
const SIGNATURES: u32 = 62;
const IMMUTABLE: u32 = 63;
/// In the modes of files.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// Flags of a file: settings that an upgrade keeps, and documents.
const CONFIG_NOREPLACE: u32 = 1 | 1 << 4;
const DOCUMENT: u32 = 1 << 1;
/// A need of this version or a later one; of this one or an earlier one, of RPM itself.
const AT_LEAST: u32 = 8 | 4;
const OF_RPM: u32 = 8 | 2 | 1 << 24;
const EXACTLY: u32 = 8;
/// SHA-256, in RPM's numbers.
const SHA256: u32 = 8;
/// Folders that other packages have.
const SHARED: [&str; 3] = ["usr", "etc", "usr/share/doc"];

/// Values of one tag.
enum Values {
    Text(String),
    Texts(Vec<String>),
    /// A text that could be in several languages.
    Translated(String),
    Shorts(Vec<u16>),
    Words(Vec<u32>),
}

impl Values {
    /// The number of its type, its alignment, how many there are, and their bytes.
    fn encode(&self) -> (u32, usize, usize, Vec<u8>) {
        let ended = |text: &String| [text.as_bytes(), b"\0"].concat();
        match self {
            Self::Text(text) => (6, 1, 1, ended(text)),
            Self::Texts(texts) => (8, 1, texts.len(), texts.iter().flat_map(ended).collect()),
            Self::Translated(text) => (9, 1, 1, ended(text)),
            Self::Shorts(shorts) => (3, 2, shorts.len(), shorts.iter().flat_map(|n| n.to_be_bytes()).collect()),
            Self::Words(words) => (4, 4, words.len(), words.iter().flat_map(|n| n.to_be_bytes()).collect()),
        }
    }
}

/// A header: values by their tags.
#[derive(Default)]
struct Header(BTreeMap<u32, Values>);

impl Header {
    fn text(&mut self, tag: u32, text: &str) {
        self.0.insert(tag, Values::Text(text.to_owned()));
    }

    fn texts<T: Into<String>>(&mut self, tag: u32, texts: impl IntoIterator<Item = T>) {
        self.0.insert(tag, Values::Texts(texts.into_iter().map(Into::into).collect()));
    }

    fn words(&mut self, tag: u32, words: impl IntoIterator<Item = u32>) {
        self.0.insert(tag, Values::Words(words.into_iter().collect()));
    }

    fn encode(&self, region: u32) -> Vec<u8> {
        let entry = |tag: u32, kind: u32, offset: u32, count: usize| {
            [tag, kind, offset, count as u32].iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>()
        };
        let (mut index, mut store) = (Vec::new(), Vec::new());
        for (tag, values) in &self.0 {
            let (kind, alignment, count, bytes) = values.encode();
            store.resize(usize::next_multiple_of(store.len(), alignment), 0);
            index.extend(entry(*tag, kind, store.len() as u32, count));
            store.extend(bytes);
        }
        let entries = self.0.len() + 1;
        let first = entry(region, 7, store.len() as u32, 16);
        store.extend(entry(region, 7, (entries as u32 * 16).wrapping_neg(), 16));
        let sizes = [entries as u32, store.len() as u32].map(u32::to_be_bytes).concat();
        [&[0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0], &*sizes, &first, &index, &store].concat()
    }
}

/// As RPM's repositories have it.
pub fn file_name(release: &Release) -> String {
    format!("basalt-{}-1.{}.rpm", version(release), release.architecture().rpm())
}

/// A `-` would begin the release.
fn version(release: &Release) -> String {
    release.version.replace('-', "~")
}

/// The package of these files.
pub fn rpm(release: &Release, files: &Tree) -> Result<Vec<u8>, String> {
    let files: Vec<(&str, &Item)> = files.iter().filter(|(path, item)| is_own(path, item)).collect();
    let archive = cpio(&files, release.at_s);
    let payload = gzip(&archive, release.compression)?;
    let header = header(release, &files, &payload).encode(IMMUTABLE);
    let mut sums = Header::default();
    sums.text(273, &sha256(&header));
    sums.words(1000, [(header.len() + payload.len()) as u32]);
    sums.words(1007, [archive.len() as u32]);
    let mut sums = sums.encode(SIGNATURES);
    sums.resize(sums.len().next_multiple_of(8), 0);
    Ok([lead(release), sums, header, payload].concat())
}

/// Whether a path is of this package, and not of the system that it is installed on.
fn is_own(path: &str, item: &Item) -> bool {
    item.node != Node::Folder || (path.contains("basalt") && !SHARED.contains(&path))
}

fn lead(release: &Release) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0];
    lead.extend(release.architecture().rpm_number().to_be_bytes());
    lead.extend(format!("basalt-{}-1", version(release)).bytes().take(65));
    lead.resize(76, 0);
    // Linux, and a signature that is a header.
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

fn header(release: &Release, files: &[(&str, &Item)], payload: &[u8]) -> Header {
    let mut header = Header::default();
    let version = version(release);
    header.texts(100, ["C"]);
    for (tag, text) in [
        (1000, "basalt"),
        (1001, &*version),
        (1002, "1"),
        (1007, "localhost"),
        (1014, "Apache-2.0"),
        (1015, MAINTAINER),
        (1021, "linux"),
        (1022, release.architecture().rpm()),
        (1044, &format!("basalt-{version}-1.src.rpm")),
        (1124, "cpio"),
        (1125, "gzip"),
        (1126, "9"),
    ] {
        header.text(tag, text);
    }
    for (tag, text) in [(1004, SUMMARY), (1005, DESCRIPTION), (1016, "Applications/Databases")] {
        header.0.insert(tag, Values::Translated(text.to_owned()));
    }
    header.words(1006, [release.at_s as u32]);
    for (script, shell, text) in [
        (1023, 1085, include_str!("scripts/rpm-pre")),
        (1024, 1086, include_str!("scripts/rpm-post")),
        (1025, 1087, include_str!("scripts/rpm-preun")),
        (1026, 1088, include_str!("scripts/rpm-postun")),
    ] {
        header.text(script, text);
        header.text(shell, "/bin/sh");
    }
    header.texts(1047, ["basalt"]);
    header.words(1112, [EXACTLY]);
    header.texts(1113, [format!("{version}-1")]);
    let libc = format!("libc.so.6(GLIBC_{})(64bit)", release.glibc);
    let libraries: Vec<String> = release.elf.needed.iter().map(|name| format!("{name}()(64bit)")).collect();
    let mut needs = vec![
        ("/bin/sh", 0, ""),
        (&*libc, 0, ""),
        ("rpmlib(CompressedFileNames)", OF_RPM, "3.0.4-1"),
        ("rpmlib(FileDigests)", OF_RPM, "4.6.0-1"),
        ("rpmlib(PayloadFilesHavePrefix)", OF_RPM, "4.0-1"),
        ("shadow-utils", AT_LEAST, "4"),
    ];
    needs.extend(libraries.iter().map(|library| (library.as_str(), 0, "")));
    header.texts(1049, needs.iter().map(|(name, ..)| *name));
    header.words(1048, needs.iter().map(|(_, flags, _)| *flags));
    header.texts(1050, needs.iter().map(|(.., version)| *version));
    header.texts(5092, [sha256(payload)]);
    header.words(5093, [SHA256]);
    describe_files(&mut header, release, files);
    header
}

fn describe_files(header: &mut Header, release: &Release, files: &[(&str, &Item)]) {
    let apart = |path: &str| match path.rsplit_once('/') {
        Some((folder, name)) => (format!("/{folder}/"), name.to_owned()),
        None => ("/".to_owned(), path.to_owned()),
    };
    let mut folders: Vec<String> = files.iter().map(|(path, _)| apart(path).0).collect();
    folders.sort_unstable();
    folders.dedup();
    let folder_of = |path: &str| folders.iter().position(|folder| *folder == apart(path).0).unwrap_or_default() as u32;
    let each = |of: fn(&str, &Item) -> u32| files.iter().map(move |(path, item)| of(path, item)).collect::<Vec<u32>>();
    header.words(1009, [files.iter().map(|(_, item)| size(item)).sum()]);
    header.words(1028, each(|_, item| size(item)));
    let modes = files.iter().map(|(_, item)| mode(item) as u16).collect();
    header.0.insert(1030, Values::Shorts(modes));
    header.0.insert(1033, Values::Shorts(vec![0; files.len()]));
    header.words(1034, files.iter().map(|_| release.at_s as u32));
    header.texts(
        1035,
        files.iter().map(|(_, item)| match &item.node {
            Node::File(bytes) => sha256(bytes),
            _ => String::new(),
        }),
    );
    header.texts(
        1036,
        files.iter().map(|(_, item)| match &item.node {
            Node::Link(to) => to.as_str(),
            _ => "",
        }),
    );
    header.words(
        1037,
        each(|path, item| match item.is_config {
            true => CONFIG_NOREPLACE,
            false if path.starts_with("usr/share/doc/") && item.node != Node::Folder => DOCUMENT,
            false => 0,
        }),
    );
    header.texts(1039, files.iter().map(|_| "root"));
    header.texts(1040, files.iter().map(|(_, item)| if item.is_config { "basalt" } else { "root" }));
    header.words(1045, files.iter().map(|_| u32::MAX));
    header.words(1095, files.iter().map(|_| 1));
    header.words(1096, (1..).take(files.len()));
    header.texts(1097, files.iter().map(|_| ""));
    header.words(1116, files.iter().map(|(path, _)| folder_of(path)));
    header.texts(1117, files.iter().map(|(path, _)| apart(path).1));
    header.texts(1118, folders.iter().map(String::as_str));
    header.words(5011, [SHA256]);
}

fn size(item: &Item) -> u32 {
    match &item.node {
        Node::Folder => 4096,
        Node::File(bytes) => bytes.len() as u32,
        Node::Link(to) => to.len() as u32,
    }
}

fn mode(item: &Item) -> u32 {
    item.mode
        | match item.node {
            Node::Folder => FOLDER,
            Node::File(_) => FILE,
            Node::Link(_) => LINK,
        }
}

/// In cpio's form without sums (newc).
fn cpio(files: &[(&str, &Item)], at_s: u64) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut put = |number: usize, mode: u32, path: &str, bytes: &[u8]| {
        let time = if mode == 0 { 0 } else { at_s as u32 };
        let links = if mode & FOLDER != 0 && mode & FILE != FILE { 2 } else { 1 };
        let fields = [number as u32, mode, 0, 0, links, time, bytes.len() as u32, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        archive.extend(b"070701");
        archive.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        archive.extend(path.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    for (number, (path, item)) in (1..).zip(files) {
        let bytes = match &item.node {
            Node::Folder => &[][..],
            Node::File(bytes) => bytes,
            Node::Link(to) => to.as_bytes(),
        };
        put(number, mode(item), &format!("./{path}"), bytes);
    }
    put(0, 0, "TRAILER!!!", &[]);
    archive
}
