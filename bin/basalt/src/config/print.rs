//! Every setting with its default and meaning.

use super::toml_file;
use node::config::{Kind, SETTINGS, Setting};
use serde_json::json;
use std::fmt::Write as _;

/// Settings that CONFIG GET has for clients and that follow from others.
const DERIVED: [&str; 4] = ["port", "bind", "cluster-enabled", "appendonly"];

const HEAD: &str = "\
# Settings of a Basalt node, each with its default. Take the # from those that you change.
# A flag of `basalt start` and a variable of the environment (BASALT_ and the name in capitals, - as _) win over this
# file; what `basalt ctl settings` sets for the whole store wins over all. `basalt config check FILE` names errors by line.
# Sizes: 1g is 1,000,000,000 bytes, 1gb is 1,073,741,824.
";

/// A configuration file with all settings, each as a comment.
pub fn toml() -> String {
    let mut text = HEAD.to_owned();
    let (effective, accepted): (Vec<_>, Vec<_>) = settings().partition(|setting| setting.effective);
    for setting in effective {
        let when = if setting.mutable { "live" } else { "at start" };
        let _ = write!(text, "\n# {} ({when}; {})\n# {}\n", setting.doc, values(setting.kind), line(setting));
    }
    text.push_str("\n# Accepted because clients of Redis set them; nothing here depends on them.\n");
    for setting in accepted {
        let _ = writeln!(text, "# {}", line(setting));
    }
    text
}

/// The same as JSON.
pub fn json() -> String {
    let rows: Vec<_> = settings()
        .map(|setting| {
            json!({
                "name": setting.name, "alias": setting.alias, "default": setting.default, "live": setting.mutable,
                "has_effect": setting.effective, "secret": setting.secret, "values": values(setting.kind),
                "meaning": setting.doc,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "settings": rows }))
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.listed && !DERIVED.contains(&setting.name))
}

fn line(setting: &Setting) -> String {
    format!("{} = {}", setting.name, toml_file::value(setting, setting.default))
}

/// What may be written.
fn values(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Integer { min, max } | Kind::Memory { min, max } => {
            let what = if matches!(kind, Kind::Memory { .. }) { "bytes" } else { "number" };
            match (min, max) {
                (i64::MIN, i64::MAX) => what.to_owned(),
                (min, i64::MAX) => format!("{what} from {min}"),
                (min, max) => format!("{what} from {min} to {max}"),
            }
        }
        Kind::MemoryOrPercent => "bytes, or a percentage".to_owned(),
        Kind::Word(words) => words.join(", "),
        Kind::Text => "text".to_owned(),
        Kind::SavePoints => "pairs of seconds and changes".to_owned(),
        Kind::OutputLimits => "class, hard limit, soft limit, seconds; several".to_owned(),
        Kind::Entries => "SHARD:INDEX, separated by commas".to_owned(),
        Kind::EventLetters => "letters, as in Redis".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn what_is_printed_is_a_file_with_the_defaults() {
        let printed = toml();
        let uncommented: String = printed
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| line.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')))
            .map(|line| format!("{line}\n"))
            .collect();
        let settings = toml_file::parse(&Arc::from(Path::new("printed.toml")), &uncommented);
        assert_eq!(settings.errors, []);
        assert_eq!(settings.given.len(), super::settings().count());
        for one in &settings.given {
            assert_eq!(one.fault(), None);
            assert_eq!(one.setting().map(|setting| setting.default), Some(one.value.as_str()), "{}", one.name);
        }
    }
}
