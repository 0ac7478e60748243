//! A suite at one scale: every part and step that there is to do, with all names filled in.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use toml::{Table, Value};
use vocab::Prng;

use super::file::{Order, PartFile, StepFile, SuiteFile};
use super::names::{Names, fill};
use crate::model::plain;
use crate::model::{StoreFile, TableFile};

/// More parts or steps than this are a mistake in the file.
const PARTS_MAX: usize = 1000;
/// Longest name of a part or a step.
const NAME_CHARACTERS_MAX: usize = 100;

/// What there is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) differs: Vec<String>,
    pub(crate) scale: String,
    pub(crate) takes: String,
    /// The scale's names.
    pub(crate) names: Names,
    pub(crate) parts: Vec<Part>,
    pub(crate) tables: Vec<TableFile>,
}

/// A store and its steps.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// From 1 on, as the file has them; the order of running may be another.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) timeline: bool,
    pub(crate) store: StoreFile,
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// From 1 on, within its part.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) file: StepFile,
}

/// What was asked for besides the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes<'a> {
    /// Which scale.
    pub(crate) scale: &'a str,
    /// Names with other values than the scale has.
    pub(crate) names: Names,
    /// For an order at random.
    pub(crate) seed: u64,
}

impl Plan {
    /// Reads a suite's text with all of its parts and steps.
    ///
    /// # Errors
    /// Where the file is wrong, and how.
    pub(crate) fn read(text: &str, wishes: &Wishes<'_>) -> Result<Self, String> {
        let file: SuiteFile = toml::from_str(text).map_err(|e| e.to_string())?;
        let scale = file.scales.get(wishes.scale).ok_or_else(|| {
            let known: Vec<&str> = file.scales.keys().map(String::as_str).collect();
            format!("--scale {}: there are {}", wishes.scale, known.join(", "))
        })?;
        let mut names: Names = scale.names.clone();
        for (name, value) in &wishes.names {
            if names.insert(name.clone(), value.clone()).is_none() {
                let known: Vec<&str> = scale.names.keys().map(String::as_str).collect();
                return Err(format!("--set {name}: the scale has no such name; it has {}", known.join(", ")));
            }
        }
        let mut parts = Vec::new();
        for table in &file.parts {
            for (names, table) in each(table, &names)? {
                let number = parts.len() + 1;
                parts.push(Part::read(number, &table, &names, &file.every_step)?);
                if parts.len() > PARTS_MAX {
                    return Err(format!("more than {PARTS_MAX} parts"));
                }
            }
        }
        unique(parts.iter().map(|part| part.name.as_str()), "parts")?;
        if file.order == Order::Random {
            shuffle(&mut parts, wishes.seed);
        }
        let takes = scale.takes.clone();
        let SuiteFile { name, title, about, differs, tables, .. } = file;
        Ok(Self { name, title, about, differs, scale: wishes.scale.to_owned(), takes, names, parts, tables })
    }

    /// Keeps the parts and steps whose names contain one of `only`, if any are given, and what they need.
    ///
    /// # Errors
    /// There is no such name.
    pub(crate) fn keep_only(&mut self, only: &[String]) -> Result<(), String> {
        keep_only(&mut self.parts, only)
    }
}

impl Part {
    fn read(number: usize, table: &Table, names: &Names, every_step: &Table) -> Result<Self, String> {
        let mut table = table.clone();
        // Steps are filled one by one: they may have names of their own.
        let steps = table.remove("step").unwrap_or(Value::Array(Vec::new()));
        let place = format!("part {number}");
        let part: PartFile = typed(filled_at(&table, names, &place)?, &place)?;
        check_name(&part.name)?;
        let Value::Array(tables) = steps else { return Err(format!("part {}: `step` is no list", part.name)) };
        let mut steps = Vec::new();
        for table in tables {
            let Value::Table(mut table) = table else { return Err(format!("part {}: a step is no table", part.name)) };
            inherit(&mut table, every_step);
            for (names, table) in each(&table, names)? {
                let place = format!("part {}, step {}", part.name, steps.len() + 1);
                let file: StepFile = typed(filled_at(&table, &names, &place)?, &place)?;
                let name = file.name.clone().unwrap_or_else(|| file.does.word().to_owned());
                check_name(&name)?;
                steps.push(Step { number: steps.len() + 1, name, file });
            }
        }
        if steps.is_empty() || steps.len() > PARTS_MAX {
            return Err(format!("part {}: from one to {PARTS_MAX} steps", part.name));
        }
        unique(steps.iter().map(|step| step.name.as_str()), &format!("steps of part {}", part.name))?;
        Ok(Self { number, name: part.name, timeline: part.timeline, store: part.store, steps })
    }
}

/// The names and the rest of a table for each combination of what its `each` lists, if `when` allows it. An element
/// that is a table gives several names at once.
fn each(table: &Table, names: &Names) -> Result<Vec<(Names, Table)>, String> {
    let mut table = table.clone();
    let lists = table.remove("each");
    let when = table.remove("when");
    let mut combinations = vec![names.clone()];
    if let Some(lists) = lists {
        let Value::Table(lists) = fill(&lists, names)? else { return Err("`each` is no table".to_owned()) };
        for (name, list) in lists {
            let Value::Array(list) = list else { return Err(format!("`each.{name}` is no list")) };
            let with = |names: &Names, value: &Value| {
                let mut names = names.clone();
                names.insert(name.clone(), value.clone());
                if let Value::Table(several) = value {
                    names.extend(several.clone());
                }
                names
            };
            combinations =
                combinations.iter().flat_map(|names| list.iter().map(move |value| with(names, value))).collect();
        }
    }
    let mut found = Vec::new();
    for names in combinations {
        let holds = when.as_ref().map(|when| fill(when, &names)).transpose()?.is_none_or(|value| is_true(&value));
        if holds {
            found.push((names, table.clone()));
        }
    }
    Ok(found)
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Boolean(truth) => *truth,
        Value::Integer(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::String(text) => !text.is_empty() && text != "no",
        _ => true,
    }
}

/// What a step does not say, every step's table says.
fn inherit(step: &mut Table, every: &Table) {
    for (name, value) in every {
        match (step.get_mut(name), value) {
            (Some(Value::Table(own)), Value::Table(shared)) => {
                for (name, value) in shared {
                    own.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
            (None, value) => _ = step.insert(name.clone(), value.clone()),
        }
    }
}

fn filled(table: &Table, names: &Names) -> Result<Table, String> {
    match fill(&Value::Table(table.clone()), names)? {
        Value::Table(table) => Ok(table),
        _ => Err("a table stays a table".to_owned()),
    }
}

fn filled_at(table: &Table, names: &Names, place: &str) -> Result<Table, String> {
    filled(table, names).map_err(|problem| format!("{place}: {problem}"))
}

fn typed<T: DeserializeOwned>(table: Table, place: &str) -> Result<T, String> {
    table.try_into().map_err(|e: toml::de::Error| format!("{place}: {}", e.message()))
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=NAME_CHARACTERS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(format!("`{name}`: a name has from 1 to {NAME_CHARACTERS_MAX} characters")) }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>, what: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two {what} are called `{name}`"));
        }
    }
    Ok(())
}

fn shuffle(parts: &mut [Part], seed: u64) {
    let mut prng = Prng::new(seed ^ 0x5017E);
    for index in (1..parts.len()).rev() {
        parts.swap(index, prng.below(index as u64 + 1) as usize);
    }
}

/// Keeps the parts, or the steps, whose names contain one of `only`; a part that keeps a step that measures keeps its
/// loads and what is done to its store before it.
fn keep_only(parts: &mut Vec<Part>, only: &[String]) -> Result<(), String> {
    if only.is_empty() {
        return Ok(());
    }
    let wanted = |name: &str| only.iter().any(|text| name.contains(text.as_str()));
    let everything: Vec<String> =
        parts.iter().flat_map(|part| part.steps.iter().map(|step| format!("{} / {}", part.name, step.name))).collect();
    for part in parts.iter_mut().filter(|part| !wanted(&part.name)) {
        let last = part.steps.iter().rposition(|step| wanted(&step.name));
        let keeps = |step: &Step| {
            use super::file::Does::{Act, Load, Settle};
            wanted(&step.name) || matches!(step.file.does, Load | Settle | Act)
        };
        part.steps.truncate(last.map_or(0, |last| last + 1));
        part.steps.retain(keeps);
    }
    parts.retain(|part| !part.steps.is_empty());
    if parts.is_empty() {
        return Err(format!("--only {}: there are {}", only.join(", "), everything.join("; ")));
    }
    Ok(())
}

/// Values as tables show them.
pub(crate) fn shown(values: &BTreeMap<String, Value>) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
