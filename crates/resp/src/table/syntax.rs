//! The notation of a row's arguments: `key value [NX | XX] [EX seconds:integer] [field [field ...]]`.
//!
//! Words in upper case are tokens, words in lower case are arguments, with a type behind a colon unless they are keys
//! or strings; `[…]` is optional, `<…>` groups, `|` separates alternatives, and `[x y ...]` repeats the `x y` before it.

/// What kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

const TYPES: &[(&str, ArgumentKind)] = &[
    ("string", ArgumentKind::String),
    ("integer", ArgumentKind::Integer),
    ("double", ArgumentKind::Double),
    ("key", ArgumentKind::Key),
    ("pattern", ArgumentKind::Pattern),
    ("unix-time", ArgumentKind::UnixTime),
];

impl ArgumentKind {
    /// The name that COMMAND DOCS gives it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
            typed => TYPES.iter().find(|(_, kind)| *kind == typed).map_or("string", |(name, _)| name),
        }
    }
}

/// One argument, or a group of them.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: ArgumentKind,
    /// The word that goes before it.
    pub(super) token: Option<&'static str>,
    pub(super) optional: bool,
    pub(super) multiple: bool,
    /// Of `OneOf` and `Block`.
    pub(super) children: Vec<Argument>,
}

impl Argument {
    fn group(kind: ArgumentKind, children: Vec<Self>) -> Self {
        let names: Vec<_> = children.iter().map(|child| child.name.as_str()).collect();
        Self { name: names.join("_"), kind, token: None, optional: false, multiple: false, children }
    }
}

/// Reads a row's notation, which is well-formed.
pub(super) fn parse(syntax: &'static str) -> Vec<Argument> {
    let mut tokens = tokens(syntax);
    tokens.reverse();
    let parsed = alternatives(&mut tokens);
    assert!(tokens.is_empty(), "unbalanced brackets in {syntax:?}");
    match parsed {
        Argument { kind: ArgumentKind::Block, optional: false, multiple: false, children, .. } => children,
        single => vec![single],
    }
}

/// The notation as a user reads it, without types.
pub(super) fn plain(syntax: &str) -> String {
    TYPES.iter().fold(syntax.to_owned(), |text, (name, _)| text.replace(&format!(":{name}"), ""))
}

fn tokens(syntax: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    for word in syntax.split_ascii_whitespace() {
        let mut rest = word;
        while let Some(i) = rest.find(['[', ']', '<', '>', '|']) {
            tokens.extend([&rest[..i], &rest[i..=i]]);
            rest = &rest[i + 1..];
        }
        tokens.push(rest);
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

/// Reads up to a closing bracket or the end. The tokens are stacked, the next one on top.
fn alternatives(tokens: &mut Vec<&'static str>) -> Argument {
    let mut all = vec![sequence(tokens)];
    while tokens.last() == Some(&"|") {
        tokens.pop();
        all.push(sequence(tokens));
    }
    match <[Argument; 1]>::try_from(all) {
        Ok([single]) => single,
        Err(several) => Argument::group(ArgumentKind::OneOf, several),
    }
}

fn sequence(tokens: &mut Vec<&'static str>) -> Argument {
    let mut items: Vec<Argument> = Vec::new();
    // A token whose argument may follow.
    let mut token_open = false;
    while let Some(&token) = tokens.last() {
        if matches!(token, "]" | ">" | "|") {
            break;
        }
        tokens.pop();
        if token == "[" {
            let length = repetition_length(tokens);
            let mut inner = alternatives(tokens);
            assert_eq!(tokens.pop(), Some("]"), "an open bracket");
            token_open = false;
            if length == 0 {
                inner.optional = true;
                items.push(inner);
                continue;
            }
            let mut repeated = items.split_off(items.len() - length);
            let mut last =
                if length == 1 { repeated.remove(0) } else { Argument::group(ArgumentKind::Block, repeated) };
            last.multiple = true;
            items.push(last);
            continue;
        }
        if token == "..." {
            continue;
        }
        let mut item = if token == "<" {
            let inner = alternatives(tokens);
            assert_eq!(tokens.pop(), Some(">"), "an open bracket");
            inner
        } else {
            word(token)
        };
        let is_token = item.kind == ArgumentKind::PureToken;
        if token_open && !is_token && item.token.is_none() {
            item.token = items.pop().and_then(|before| before.token);
        }
        token_open = is_token;
        items.push(item);
    }
    match <[Argument; 1]>::try_from(items) {
        Ok([single]) => single,
        Err(several) => Argument::group(ArgumentKind::Block, several),
    }
}

/// How many arguments the bracket that was just opened repeats; 0 if it does not end with `...`.
fn repetition_length(tokens: &[&'static str]) -> usize {
    let inner = tokens.iter().rev().take_while(|&&token| token != "[" && token != "]");
    let inner: Vec<_> = inner.copied().collect();
    let [words @ .., "..."] = &inner[..] else { return 0 };
    // A token and what follows it are one argument.
    let pairs = words.windows(2).filter(|pair| is_token(pair[0]) && !is_token(pair[1])).count();
    words.len() - pairs
}

fn is_token(word: &str) -> bool {
    !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn word(token: &'static str) -> Argument {
    let is_token = is_token(token);
    let typed = token.rsplit_once(':').and_then(|(name, kind)| {
        let known = TYPES.iter().find(|(known, _)| *known == kind)?;
        Some((name, known.1))
    });
    let (name, kind) = match typed {
        _ if is_token => (token, ArgumentKind::PureToken),
        Some(found) => found,
        None if token == "key" => (token, ArgumentKind::Key),
        None => (token, ArgumentKind::String),
    };
    Argument {
        name: name.to_ascii_lowercase(),
        kind,
        token: is_token.then_some(token),
        optional: false,
        multiple: false,
        children: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name:kind`, with `TOKEN=` before, `?` and `+` for optional and multiple behind, children in brackets.
    fn show(arguments: &[Argument]) -> String {
        let show_one = |a: &Argument| {
            let token =
                a.token.filter(|_| a.kind != ArgumentKind::PureToken).map_or(String::new(), |t| format!("{t}="));
            let children = if a.children.is_empty() { String::new() } else { format!("({})", show(&a.children)) };
            let name = if a.children.is_empty() { a.name.as_str() } else { "" };
            let marks = [(a.optional, "?"), (a.multiple, "+")].map(|(set, mark)| if set { mark } else { "" });
            format!("{token}{name}:{}{}{children}", a.kind.name(), marks.concat())
        };
        arguments.iter().map(show_one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn notation() {
        for (syntax, shown) in [
            ("", ""),
            ("key", "key:key"),
            ("key field [field ...]", "key:key field:string+"),
            ("key value [key value ...]", ":block+(key:key value:string)"),
            ("ON | OFF", ":oneof(on:pure-token off:pure-token)"),
            ("[EX n:integer | KEEPTTL] [GET]", ":oneof?(EX=n:integer keepttl:pure-token) get:pure-token?"),
            ("[TYPE <A | B>]", "TYPE=:oneof?(a:pure-token b:pure-token)"),
            ("ip:port [ID i:integer [i:integer ...]]", "ip:port:string ID=i:integer?+"),
            ("[count:integer [WITH]]", ":block?(count:integer with:pure-token?)"),
            ("[e [e ...]]", "e:string?+"),
            ("key [GET p [GET p ...]]", "key:key GET=p:string?+"),
        ] {
            assert_eq!(show(&parse(syntax)), shown, "{syntax}");
        }
        assert_eq!(plain("[EX n:integer] ip:port"), "[EX n] ip:port");
    }

    /// The fewest arguments that the notation allows, and whether it allows more.
    fn bounds(arguments: &[Argument]) -> (usize, bool) {
        let (mut least, mut more) = (0, false);
        for a in arguments {
            let (inner, inner_more) = match a.kind {
                ArgumentKind::Block => bounds(&a.children),
                ArgumentKind::OneOf => {
                    let each: Vec<_> = a.children.iter().map(|c| bounds(std::slice::from_ref(c))).collect();
                    let least = each.iter().map(|b| b.0).min().unwrap();
                    (least, each.iter().any(|b| b.1 || b.0 != least))
                }
                ArgumentKind::PureToken => (0, false),
                _ => (1, false),
            };
            more |= a.optional || a.multiple || inner_more;
            least += if a.optional { 0 } else { inner + usize::from(a.token.is_some()) };
        }
        (least, more)
    }

    #[test]
    fn arguments_agree_with_arity() {
        for spec in super::super::all() {
            // QUIT and the words of replicas ignore what they are given, KILL needs one filter of any kind, START says itself
            // what it lacks, and containers have their subcommands.
            let free = ["QUIT", "CLIENT|KILL", "HOTKEYS|START", "PSYNC", "REPLCONF"];
            if free.contains(&spec.name) || spec.is_container() {
                continue;
            }
            let (least, more) = bounds(&parse(spec.arguments));
            let least = (least + 1 + usize::from(spec.container.is_some())) as i16;
            assert_eq!(spec.arity, if more { -least } else { least }, "{}", spec.name);
        }
    }
}
