//! The manual page: what the program says of itself.

use super::texts::SUMMARY;
use crate::supply::rfc3339;
use std::fmt::Write as _;

/// The page, in troff. `ask` runs the program.
pub fn man(ask: &dyn Fn(&[&str]) -> Result<String, String>, version: &str, at_s: u64) -> Result<String, String> {
    let help = ask(&["--help"])?;
    let mut page = format!(
        ".TH BASALT 1 \"{}\" \"Basalt {version}\" \"User Commands\"\n.SH NAME\nbasalt \\- {}\n.SH SYNOPSIS\n.B basalt\n\
         .I command\n[options]\n",
        &rfc3339(at_s)[..10],
        SUMMARY,
    );
    section(&mut page, "DESCRIPTION", &help);
    let mut rest: Vec<Vec<String>> = commands(&help).into_iter().rev().map(|command| vec![command]).collect();
    while let Some(path) = rest.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = ask(&words)?;
        section(&mut page, &format!("basalt {}", path.join(" ")), &help);
        rest.extend(commands(&help).into_iter().rev().map(|command| [&path[..], &[command]].concat()));
    }
    page += ".SH FILES\n.TP\n.I /etc/basalt/basalt.toml\nsettings of the service\n.TP\n.I /var/lib/basalt\nits data\n\
             .TP\n.I /usr/share/doc/basalt\nhow to operate it, and how to harden it\n";
    Ok(page)
}

/// The commands that a help text lists, but for `help`.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Lines that go on are further in.
    let name = |line: &str| {
        line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next().map(str::to_owned)
    };
    lines.filter_map(name).filter(|name| name != "help").collect()
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = writeln!(page, ".SH \"{}\"\n.nf", title.to_uppercase());
    for line in text.trim_end().lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with one of these would be a request.
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        let _ = writeln!(page, "{guard}{line}");
    }
    *page += ".fi\n";
}

#[cfg(test)]
mod tests {
    use super::man;

    #[test]
    fn every_command_has_its_section() {
        let ask = |words: &[&str]| {
            Ok(match words {
                ["--help"] => {
                    "About\n\nCommands:\n  start  Serve\n         more\n  ctl    Ask\n  help   This\n\nOptions:\n"
                        .to_owned()
                }
                ["ctl", "--help"] => "Commands:\n  status  Show\n  plan    Change\n".to_owned(),
                ["ctl", "plan", "--help"] => "Commands:\n  apply  Begin\n".to_owned(),
                words => format!(".of {}", words.join(" ")),
            })
        };
        let page = man(&ask, "1.2.3", 0).expect("the program answers");
        for part in [
            ".TH BASALT 1 \"1970-01-01\" \"Basalt 1.2.3\"",
            "BASALT START\"\n.nf\n\\&.of start \\-\\-help\n.fi",
            "\"BASALT CTL STATUS\"",
            "\"BASALT CTL PLAN APPLY\"",
        ] {
            assert!(page.contains(part), "no {part} in\n{page}");
        }
        assert!(!page.contains("BASALT HELP"));
    }
}
