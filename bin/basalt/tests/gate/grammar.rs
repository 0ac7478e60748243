//! What the server tells of its commands: COMMAND for how many arguments each takes, COMMAND DOCS for what each argument is.

use crate::common::{Connection, Value};

/// What kind of argument, as COMMAND DOCS names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// One argument, or a group of them.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    pub kind: Kind,
    /// The word before it, or the word that it is.
    pub token: Option<String>,
    pub is_optional: bool,
    pub is_multiple: bool,
    /// Of `OneOf` and `Block`.
    pub children: Vec<Argument>,
}

/// How a command is written.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its name, and that of the subcommand.
    pub words: Vec<String>,
    /// Its chapter.
    pub group: String,
    /// How many arguments, the name included; -n means n or more.
    pub arity: i64,
    pub arguments: Vec<Argument>,
}

impl Form {
    /// The name as a user types it.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }
}

/// All commands of a server, subcommands included.
pub fn forms(connection: &mut Connection) -> Vec<Form> {
    let mut arities = Vec::new();
    for command in connection.call("COMMAND").items() {
        gather_arities(command, &mut arities);
    }
    let mut forms = Vec::new();
    let docs = connection.call("COMMAND DOCS");
    for named in docs.items().chunks(2) {
        gather_forms(&named[0].text(), &named[1], &mut forms);
    }
    for form in &mut forms {
        let name = form.words.join("|");
        form.arity = arities.iter().find(|(known, _)| *known == name).map_or(-1, |(_, arity)| *arity);
    }
    assert!(forms.len() > 300, "{} commands", forms.len());
    forms
}

fn gather_arities(command: &Value, arities: &mut Vec<(String, i64)>) {
    let fields = command.items();
    arities.push((fields[0].text().to_uppercase(), fields[1].int()));
    for subcommand in fields[9].items() {
        gather_arities(subcommand, arities);
    }
}

fn gather_forms(name: &str, docs: &Value, forms: &mut Vec<Form>) {
    if let Some(subcommands) = fact(docs, "subcommands") {
        for named in subcommands.items().chunks(2) {
            gather_forms(&named[0].text(), &named[1], forms);
        }
        return;
    }
    forms.push(Form {
        words: name.to_uppercase().split('|').map(str::to_owned).collect(),
        group: fact(docs, "group").map_or_else(String::new, Value::text),
        arity: 0,
        arguments: arguments(fact(docs, "arguments")),
    });
}

fn arguments(told: Option<&Value>) -> Vec<Argument> {
    told.map_or_else(Vec::new, |told| told.items().iter().map(argument).collect())
}

fn argument(told: &Value) -> Argument {
    let flags = fact(told, "flags").map_or_else(Vec::new, |flags| flags.items().iter().map(Value::text).collect());
    let kind = fact(told, "type").map_or_else(String::new, Value::text);
    Argument {
        name: fact(told, "name").map_or_else(String::new, Value::text),
        kind: match kind.as_str() {
            "integer" => Kind::Integer,
            "double" => Kind::Double,
            "key" => Kind::Key,
            "pattern" => Kind::Pattern,
            "unix-time" => Kind::UnixTime,
            "pure-token" => Kind::PureToken,
            "oneof" => Kind::OneOf,
            "block" => Kind::Block,
            _ => Kind::String,
        },
        token: fact(told, "token").map(Value::text),
        is_optional: flags.iter().any(|flag| flag == "optional"),
        is_multiple: flags.iter().any(|flag| flag == "multiple"),
        children: arguments(fact(told, "arguments")),
    }
}

/// What a map tells under a name.
fn fact<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.items().chunks(2).find(|pair| pair[0].text() == name).map(|pair| &pair[1])
}
