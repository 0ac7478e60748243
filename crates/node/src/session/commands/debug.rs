//! DEBUG and SHUTDOWN.

use super::ask::{Ask, Outcome, Row, SYNTAX, is_word, wrong_arguments};
use crate::session::Effect;
use resp::parse_double;

/// Longest DEBUG SLEEP.
const SLEEP_SECONDS_MAX: f64 = 3600.0;

pub(super) const ROWS: &[Row] = &[("DEBUG", debug), ("SHUTDOWN", shutdown)];

fn debug(ask: &mut Ask<'_>) -> Outcome {
    match ask.args[1..] {
        [word, seconds] if is_word(word, "SLEEP") => {
            let seconds = parse_double(seconds).ok_or("ERR value is not a valid float")?;
            ask.reply.ok();
            let us = (seconds.clamp(0.0, SLEEP_SECONDS_MAX) * 1e6) as u64;
            Ok(Effect::ReplyAfter { us, command: ask.spec.id })
        }
        // Tests of clients have it answer as Redis does in situations that they cannot bring about.
        [word, text] if is_word(word, "ERROR") => Err(String::from_utf8_lossy(text).replace(['\r', '\n'], " ").into()),
        [word] if is_word(word, "HELP") => {
            let lines = [
                "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "SLEEP <seconds>",
                "    Answer after that time. Other connections are not held up.",
                "ERROR <string>",
                "    Answer that error.",
                "HELP",
                "    Print this help.",
            ];
            ask.reply.array(lines.len());
            lines.iter().for_each(|line| ask.reply.simple(line));
            Ok(Effect::None)
        }
        [_, ..] => Err(wrong_arguments(ask, "DEBUG")),
        [] => Err(SYNTAX),
    }
}

/// What was acknowledged is in the log, so SAVE and NOSAVE make no difference.
fn shutdown(ask: &mut Ask<'_>) -> Outcome {
    let (mut save, mut nosave, mut now, mut force, mut abort) = (false, false, false, false, false);
    for word in &ask.args[1..] {
        let options = [
            ("SAVE", &mut save),
            ("NOSAVE", &mut nosave),
            ("NOW", &mut now),
            ("FORCE", &mut force),
            ("ABORT", &mut abort),
        ];
        let option = options.into_iter().find(|(name, _)| is_word(word, name));
        *option.ok_or(SYNTAX)?.1 = true;
    }
    if (save && nosave) || (abort && ask.args.len() > 2) {
        return Err(SYNTAX);
    }
    if !abort {
        return Ok(Effect::Shutdown { now, force });
    }
    if !ask.host.abort_shutdown() {
        return Err("ERR No shutdown in progress.".into());
    }
    ask.reply.ok();
    Ok(Effect::None)
}
