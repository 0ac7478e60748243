//! The names of a suite's scale, and what becomes of a text that uses them.
//!
//! `"$records"` is the value itself, `"$nodes nodes"` a text with it, and `"= $records * $shards / 2"` arithmetic: numbers
//! and names, `+ - * / ( )`, whole where the result is. `"${memory}M"` says where a name ends.

use std::collections::BTreeMap;

use toml::Value;

use crate::model::plain;

/// Names and what they stand for.
pub(crate) type Names = BTreeMap<String, Value>;

/// Names may stand for names; deeper than this it is a circle.
const DEPTH_MAX: usize = 8;

/// `value` with every name in it replaced.
///
/// # Errors
/// A name without a value, or arithmetic that cannot be done.
pub(crate) fn fill(value: &Value, names: &Names) -> Result<Value, String> {
    fill_within(value, names, DEPTH_MAX)
}

fn fill_within(value: &Value, names: &Names, depth: usize) -> Result<Value, String> {
    if depth == 0 {
        return Err("names stand for each other in a circle".to_owned());
    }
    Ok(match value {
        Value::String(text) => filled_text(text, names, depth - 1)?,
        Value::Array(list) => {
            Value::Array(list.iter().map(|value| fill_within(value, names, depth)).collect::<Result<_, _>>()?)
        }
        Value::Table(table) => {
            let pairs = table.iter().map(|(name, value)| Ok((name.clone(), fill_within(value, names, depth)?)));
            Value::Table(pairs.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn filled_text(text: &str, names: &Names, depth: usize) -> Result<Value, String> {
    if let Some(sum) = text.strip_prefix('=') {
        let result = Arithmetic { rest: sum, names, depth }.whole()?;
        let is_whole = result.fract() == 0.0 && result.abs() < 9e15;
        return Ok(if is_whole { Value::Integer(result as i64) } else { Value::Float(result) });
    }
    if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
        return fill_within(value_of(name, names)?, names, depth);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let (name, after) = match rest[at + 1..].strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, after)) if is_name(name) => (name, after),
            _ => name_at(&rest[at + 1..]),
        };
        if name.is_empty() {
            return Err(format!("`{text}`: a name must follow `$`"));
        }
        out.push_str(&plain(&fill_within(value_of(name, names)?, names, depth)?));
        rest = after;
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && name_at(text).1.is_empty()
}

/// The name that `text` begins with, and what follows.
fn name_at(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
}

fn value_of<'a>(name: &str, names: &'a Names) -> Result<&'a Value, String> {
    names.get(name).ok_or_else(|| {
        let known: Vec<&str> = names.keys().map(String::as_str).collect();
        format!("`${name}`: no such name; there are {}", known.join(", "))
    })
}

/// Arithmetic from left to right, with the usual precedence.
struct Arithmetic<'a> {
    rest: &'a str,
    names: &'a Names,
    depth: usize,
}

impl Arithmetic<'_> {
    fn whole(mut self) -> Result<f64, String> {
        let text = self.rest;
        let result = self.sum()?;
        match self.peek() {
            None if result.is_finite() => Ok(result),
            None => Err(format!("`={text}` is no number")),
            Some(found) => Err(format!("`={text}`: `{found}` is not expected here")),
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut result = self.product()?;
        loop {
            if self.take('+') {
                result += self.product()?;
            } else if self.take('-') {
                result -= self.product()?;
            } else {
                return Ok(result);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut result = self.number()?;
        loop {
            if self.take('*') {
                result *= self.number()?;
            } else if self.take('/') {
                result /= self.number()?;
            } else {
                return Ok(result);
            }
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        if self.take('(') {
            if self.depth == 0 {
                return Err("too many brackets".to_owned());
            }
            self.depth -= 1;
            let inner = self.sum()?;
            return if self.take(')') { Ok(inner) } else { Err("a bracket is not closed".to_owned()) };
        }
        if self.take('$') {
            let (name, after) = name_at(self.rest);
            self.rest = after;
            let value = fill_within(value_of(name, self.names)?, self.names, self.depth)?;
            return number_of(&value).ok_or_else(|| format!("`${name}` is `{}`, not a number", plain(&value)));
        }
        self.peek();
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(self.rest.len());
        let (digits, after) = self.rest.split_at(end);
        let number = digits.replace('_', "").parse().map_err(|_| format!("`{}`: expected a number", self.rest))?;
        self.rest = after;
        Ok(number)
    }
}

/// A value as a number, if it is one.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_replaced_and_sums_are_done() {
        let mut names = Names::new();
        names.insert("a".to_owned(), Value::Integer(6));
        names.insert("half".to_owned(), Value::String("= $a / 2".to_owned()));
        names.insert("list".to_owned(), Value::Array(vec![Value::Integer(1), Value::String("$a".to_owned())]));
        names.insert("loop".to_owned(), Value::String("$loop".to_owned()));
        for (text, expected) in [
            ("plain", Ok(Value::String("plain".to_owned()))),
            ("$a", Ok(Value::Integer(6))),
            ("$a nodes, ${half}M", Ok(Value::String("6 nodes, 3M".to_owned()))),
            ("= $a * (2 + 1) - 10 / 4", Ok(Value::Float(15.5))),
            ("=1_000 * $half", Ok(Value::Integer(3000))),
            ("$list", Ok(Value::Array(vec![Value::Integer(1), Value::Integer(6)]))),
            ("$b", Err("no such name")),
            ("$loop", Err("circle")),
            ("= $a +", Err("expected a number")),
            ("= 1 / 0", Err("is no number")),
            ("= (1", Err("not closed")),
            ("= 1 2", Err("not expected")),
            ("a $", Err("must follow")),
        ] {
            match (fill(&Value::String(text.to_owned()), &names), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }
}
