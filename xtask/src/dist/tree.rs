//! The files of a package, as they lie below the root of the machine that it is installed on.

use std::collections::BTreeMap;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Folder,
    File(Vec<u8>),
    /// A symbolic link to that path.
    Link(String),
}

/// One path of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub node: Node,
    /// Permissions, without the kind.
    pub mode: u32,
    /// User and group: 0 but in images.
    pub owner: u32,
    /// Whether an operator's changes to it survive an upgrade.
    pub is_config: bool,
}

impl Item {
    /// What a file holds.
    pub fn bytes(&self) -> Option<&[u8]> {
        if let Node::File(bytes) = &self.node { Some(bytes) } else { None }
    }
}

/// All paths of a package, without the leading `/`, each behind the folder that it is in.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<String, Item>);

impl Tree {
    /// Puts a file there, and its folders.
    pub fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.put(path, Item { node: Node::File(bytes.into()), mode, owner: 0, is_config: false });
    }

    /// Puts a file there that operators change.
    pub fn config(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.put(path, Item { node: Node::File(bytes.into()), mode, owner: 0, is_config: true });
    }

    /// Puts a folder there.
    pub fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.put(path, Item { node: Node::Folder, mode, owner, is_config: false });
    }

    /// Puts a symbolic link there.
    pub fn link(&mut self, path: &str, to: &str) {
        self.put(path, Item { node: Node::Link(to.to_owned()), mode: 0o777, owner: 0, is_config: false });
    }

    fn put(&mut self, path: &str, item: Item) {
        for (at, _) in path.match_indices('/') {
            let folder = Item { node: Node::Folder, mode: 0o755, owner: 0, is_config: false };
            self.0.entry(path[..at].to_owned()).or_insert(folder);
        }
        self.0.insert(path.to_owned(), item);
    }

    /// All paths in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.0.iter().map(|(path, item)| (path.as_str(), item))
    }

    /// The bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.0.values().filter_map(Item::bytes).map(|bytes| bytes.len() as u64).sum()
    }
}
