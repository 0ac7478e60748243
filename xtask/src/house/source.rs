//! One Rust file, parsed: its code without tests, the modules and names that it declares, and the paths that it uses.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::str::FromStr as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// A token of code, flattened out of its groups.
#[derive(Debug)]
struct Token {
    text: String,
    is_name: bool,
    first_line: usize,
    last_line: usize,
}

/// A module: a file, or an inline `mod` within it.
#[derive(Debug, Default)]
pub struct Module {
    /// Its name; empty for the file's own.
    pub name: String,
    /// Its lines, counted from one.
    lines: Option<RangeInclusive<usize>>,
    /// Modules that it declares and that stand in files of their own.
    pub children: Vec<String>,
    /// Inline modules.
    pub inline: Vec<Module>,
    /// Items that it defines.
    pub items: BTreeSet<String>,
    /// What its `use` items bring in, by the name they have here.
    pub names: BTreeMap<String, Vec<String>>,
    /// Paths whose names are all brought in.
    pub globs: Vec<Vec<String>>,
    /// Names brought in only so that others find them here.
    passed_on: BTreeSet<String>,
    /// The types of its inherent `impl` blocks, one entry a block.
    pub impls: Vec<String>,
}

/// A path that code uses, as its segments, and the inline modules around it.
#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    /// Names of the inline modules around the use, outermost first.
    pub within: Vec<String>,
    /// The path's segments, `crate`, `super` and `self` included.
    pub segments: Vec<String>,
    /// Where it is used.
    pub line: usize,
}

/// One Rust file.
#[derive(Debug)]
pub struct Source {
    /// The module that the file is.
    pub module: Module,
    /// Lines that hold code outside tests.
    pub code_lines: usize,
    /// Paths that code outside tests uses.
    pub paths: Vec<Path>,
}

impl Source {
    /// Reads `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = syn::parse_file(text).map_err(|error| format!("{error} at line {}", error.span().start().line))?;
        let mut reader = ItemReader::default();
        let mut module = reader.module(String::new(), &file.items);
        module.lines = None;
        let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let mut code = Vec::new();
        flatten(tokens, &mut code);
        code.retain(|token| !reader.tests.iter().any(|lines| lines.contains(&token.first_line)));
        let lines: BTreeSet<usize> = code.iter().flat_map(|token| token.first_line..=token.last_line).collect();
        let used: BTreeSet<&str> = code
            .iter()
            .filter(|token| token.is_name && !reader.uses.iter().any(|lines| lines.contains(&token.first_line)))
            .map(|token| token.text.as_str())
            .collect();
        let mut paths = Vec::new();
        for name in module.passed_on.iter().filter(|name| used.contains(name.as_str())) {
            if let Some(segments) = module.names.get(name) {
                paths.push(Path { within: Vec::new(), segments: segments.clone(), line: 1 });
            }
        }
        let own: Vec<Token> = code
            .into_iter()
            .filter(|token| !reader.passing_on.iter().any(|lines| lines.contains(&token.first_line)))
            .collect();
        PathReader { tokens: &own, module: &module }.read(&mut paths);
        Ok(Self { module, code_lines: lines.len(), paths })
    }
}

/// Collects what the items of a file declare.
#[derive(Default)]
struct ItemReader {
    tests: Vec<RangeInclusive<usize>>,
    uses: Vec<RangeInclusive<usize>>,
    passing_on: Vec<RangeInclusive<usize>>,
}

impl ItemReader {
    fn module(&mut self, name: String, items: &[Item]) -> Module {
        let mut module = Module { name, ..Module::default() };
        for item in items {
            let span = item.span();
            let lines = span.start().line..=span.end().line;
            if attributes(item).iter().any(is_for_tests) {
                self.tests.push(lines);
                continue;
            }
            match item {
                Item::Mod(child) => match &child.content {
                    None => module.children.push(child.ident.to_string()),
                    Some((_, items)) => {
                        let mut inline = self.module(child.ident.to_string(), items);
                        inline.lines = Some(lines);
                        module.inline.push(inline);
                    }
                },
                Item::Use(item) => {
                    let before: BTreeSet<String> = module.names.keys().cloned().collect();
                    leaves(&item.tree, &mut Vec::new(), &mut module);
                    self.uses.push(lines.clone());
                    if !matches!(item.vis, Visibility::Inherited) {
                        let new = module.names.keys().filter(|name| !before.contains(*name)).cloned();
                        module.passed_on.extend(new);
                        self.passing_on.push(lines);
                    }
                }
                Item::Impl(block) => {
                    self.methods_for_tests(block);
                    if block.trait_.is_none()
                        && let Some(name) = type_name(&block.self_ty)
                    {
                        module.impls.push(name);
                    }
                }
                item => module.items.extend(item_name(item)),
            }
        }
        module
    }

    fn methods_for_tests(&mut self, block: &syn::ItemImpl) {
        for item in &block.items {
            if let syn::ImplItem::Fn(method) = item
                && method.attrs.iter().any(is_for_tests)
            {
                self.tests.push(item.span().start().line..=item.span().end().line);
            }
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(any(test, …))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let said = list.tokens.to_string();
            let has = |word| said.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
            has("test") && !has("not")
        }
        _ => false,
    }
}

fn item_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn type_name(ty: &syn::Type) -> Option<String> {
    match ty {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        syn::Type::TraitObject(object) => {
            Some(object.bounds.to_token_stream().to_string().trim_start_matches("dyn ").to_owned())
        }
        _ => None,
    }
}

/// Puts every name that a `use` item brings in into `module`.
fn leaves(tree: &UseTree, before: &mut Vec<String>, module: &mut Module) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, module);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = before.last() {
                module.names.insert(last.clone(), before.clone());
            }
        }
        UseTree::Name(name) => {
            let path = before.iter().cloned().chain([name.ident.to_string()]).collect();
            module.names.insert(name.ident.to_string(), path);
        }
        UseTree::Rename(rename) => {
            let path = before.iter().cloned().chain([rename.ident.to_string()]).collect();
            module.names.insert(rename.rename.to_string(), path);
        }
        UseTree::Glob(_) => module.globs.push(before.clone()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, module)),
    }
}

/// Every token of `stream` in order, without doc comments.
fn flatten(stream: TokenStream, code: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        if matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '#') {
            // `#[doc…]`, `#![doc…]`: a comment, to the tokens.
            if matches!(trees.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!') {
                trees.next();
            }
            if matches!(trees.peek(), Some(TokenTree::Group(group)) if is_doc(group)) {
                trees.next();
                continue;
            }
        }
        let (first_line, last_line) = (tree.span().start().line, tree.span().end().line);
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let mark = |text: &str, line| Token {
                    text: text.to_owned(),
                    is_name: false,
                    first_line: line,
                    last_line: line,
                };
                code.push(mark(open, first_line));
                flatten(group.stream(), code);
                code.push(mark(close, last_line));
            }
            tree => {
                let is_name = matches!(tree, TokenTree::Ident(_));
                code.push(Token { text: tree.to_string(), is_name, first_line, last_line });
            }
        }
    }
}

fn is_doc(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// Finds paths in flattened tokens, of `use` items and of all other code alike.
struct PathReader<'a> {
    tokens: &'a [Token],
    module: &'a Module,
}

impl PathReader<'_> {
    fn read(&self, paths: &mut Vec<Path>) {
        let mut at = 0;
        while at < self.tokens.len() {
            if self.begins(at) {
                let line = self.tokens[at].first_line;
                let mut found = Vec::new();
                at = self.path(at, &mut Vec::new(), &mut found);
                let within = self.within(line);
                paths.extend(found.into_iter().map(|segments| Path { within: within.clone(), segments, line }));
            } else {
                at += 1;
            }
        }
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    fn is_separator(&self, at: usize) -> bool {
        self.text(at) == ":" && self.text(at + 1) == ":"
    }

    /// Whether a path begins here: a name with `::` behind it and neither `::` nor `.` before it.
    fn begins(&self, at: usize) -> bool {
        let is_inside = at > 0 && (self.text(at - 1) == "." || (at > 1 && self.is_separator(at - 2)));
        self.tokens[at].is_name && self.is_separator(at + 1) && !is_inside
    }

    /// Reads the path that goes on at `at`, and every branch of it if it has braces; says where it ends.
    fn path(&self, mut at: usize, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
        let depth = before.len();
        loop {
            match self.text(at) {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = if self.text(at) == "," { at + 1 } else { self.path(at, before, found) };
                    }
                    at += 1;
                    break;
                }
                "*" => {
                    found.push(before.iter().cloned().chain(["*".to_owned()]).collect());
                    at += 1;
                    break;
                }
                _ if self.tokens.get(at).is_some_and(|token| token.is_name) => {
                    before.push(self.text(at).to_owned());
                    at += 1;
                    if self.is_separator(at) && !matches!(self.text(at + 2), "<") {
                        at += 2;
                        continue;
                    }
                    if self.text(at) == "as" {
                        at += 2;
                    }
                    found.push(before.clone());
                    break;
                }
                _ => {
                    at += 1;
                    break;
                }
            }
        }
        before.truncate(depth);
        at
    }

    fn within(&self, line: usize) -> Vec<String> {
        let mut names = Vec::new();
        let mut module = self.module;
        while let Some(inner) =
            module.inline.iter().find(|inner| inner.lines.as_ref().is_some_and(|lines| lines.contains(&line)))
        {
            names.push(inner.name.clone());
            module = inner;
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::parse(text).expect("it is Rust").paths.iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn code_is_counted_without_tests_docs_and_comments() {
        let text = "//! A module.\n\n/// A thing.\n#[derive(Debug)]\npub struct A;\n// Why.\nimpl A {\n    #[cfg(test)]\n    \
                    fn a() {}\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(Source::parse(text).expect("it is Rust").code_lines, 4);
    }

    #[test]
    fn paths_are_found_in_imports_in_code_and_in_macros() {
        let cases: [(&str, &[&str]); 7] = [
            ("use crate::a::{B, c::{D, E as F}};", &["crate::a::B", "crate::a::c::D", "crate::a::c::E"]),
            ("use super::*;", &["super::*"]),
            ("fn f() { crate::a::b::<u8>(); x.y::<Z>(); }", &["crate::a::b"]),
            ("fn f() { println!(\"{}\", super::g()); }", &["super::g"]),
            ("mod a; fn f() -> a::B { a::c() }", &["a::B", "a::c"]),
            ("#[cfg(test)] use crate::a::B;", &[]),
            // Passed on, and used here as well only in the second.
            ("mod a; pub use a::A;", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(paths(text), expected, "{text}");
        }
        assert_eq!(paths("mod a;\npub use a::A;\nfn f(_: A) {}"), ["a::A"]);
    }
}
