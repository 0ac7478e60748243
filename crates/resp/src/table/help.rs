//! The HELP subcommand of every container.

use super::resolve::subcommands;
use super::spec::CommandSpec;
use super::syntax::plain;
use crate::Reply;

/// Answers `CLIENT HELP` and the like: lines of text, as Redis lays them out.
pub fn help(container: &CommandSpec, reply: &mut Reply) {
    let mut lines = vec![format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container.name)];
    if container.check_arity(1) {
        lines.extend(["(no subcommand)".to_owned(), format!("    {}", container.summary)]);
    }
    for subcommand in subcommands(container) {
        lines.push(format!("{} {}", subcommand.short_name(), plain(subcommand.arguments)).trim_end().to_owned());
        lines.push(format!("    {}", subcommand.summary));
    }
    reply.array(lines.len());
    for line in lines {
        reply.simple(&line);
    }
}
