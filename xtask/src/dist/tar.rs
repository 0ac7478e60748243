//! Archives of tar in the form of POSIX 1988 (ustar), which every tool reads, and their compression.

use super::tree::{Item, Node, Tree};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

const BLOCK: usize = 512;

/// The archive of a tree; each path behind `prefix`, each time `at_s` seconds since the epoch.
pub fn tar(tree: &Tree, prefix: &str, at_s: u64) -> Result<Vec<u8>, String> {
    let mut archive = Vec::with_capacity(tree.bytes() as usize + (1 << 20));
    for (path, item) in tree.iter() {
        let is_folder = item.node == Node::Folder;
        let path = format!("{prefix}{path}{}", if is_folder { "/" } else { "" });
        archive.extend(header(&path, item, at_s)?);
        if let Node::File(bytes) = &item.node {
            archive.extend(bytes);
            archive.resize(archive.len().next_multiple_of(BLOCK), 0);
        }
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

fn header(path: &str, item: &Item, at_s: u64) -> Result<[u8; BLOCK], String> {
    let mut header = [0; BLOCK];
    let (size, kind, link) = match &item.node {
        Node::Folder => (0, b'5', ""),
        Node::File(bytes) => (bytes.len() as u64, b'0', ""),
        Node::Link(to) => (0, b'2', to.as_str()),
    };
    let mut put = |at: usize, room: usize, text: &str| {
        let fits = text.len() <= room;
        if fits {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        fits
    };
    let number = |digits: usize, n: u64| format!("{n:0digits$o}");
    let owner = number(7, u64::from(item.owner));
    let fits = put(0, 100, path)
        && put(100, 8, &number(7, u64::from(item.mode)))
        && put(108, 8, &owner)
        && put(116, 8, &owner)
        && put(124, 12, &number(11, size))
        && put(136, 12, &number(11, at_s))
        && put(148, 8, "        ")
        && put(157, 100, link)
        && put(257, 8, "ustar\x0000");
    if !fits {
        return Err(format!("{path}: does not fit into an archive"));
    }
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}

/// In the form of gzip, without a name and a time.
pub fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(level));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| format!("gzip: {error}"))
}
