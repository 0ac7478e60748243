//! CONFIG.

use super::ask::{Ask, Outcome, Refusal, Row, SYNTAX, is_word};
use crate::config::{RewriteError, SETTINGS, Setting, SettingFiles};
use crate::session::Effect;

pub(super) const ROWS: &[Row] =
    &[("CONFIG|GET", get), ("CONFIG|SET", set), ("CONFIG|RESETSTAT", resetstat), ("CONFIG|REWRITE", rewrite)];

fn get(ask: &mut Ask<'_>) -> Outcome {
    let found = ask.host.config().matching(&ask.args[2..]);
    // A client of a database sees no cluster.
    let is_standalone = ask.session.keyspace().database().is_some();
    ask.reply.map(found.len());
    for (name, value) in found {
        let value = if is_standalone && name == "cluster-enabled" { "no" } else { &*value };
        ask.reply.bulk(name.as_bytes());
        ask.reply.bulk(value.as_bytes());
    }
    Ok(Effect::None)
}

fn set(ask: &mut Ask<'_>) -> Outcome {
    let (pairs, rest) = ask.args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let sets_password = pairs.iter().any(|(name, _)| is_word(name, "REQUIREPASS"));
    if sets_password && ask.host.access_control().users().rules_of_default() {
        return Err("ERR CONFIG SET failed (possibly related to argument 'requirepass') - the store keeps the user \
             `default`: ACL SETUSER default resetpass >password"
            .into());
    }
    set_all(ask, &pairs)?;
    ask.reply.ok();
    let is_stored = |setting: &&Setting| setting.of_store && pairs.iter().any(|(name, _)| setting.is_named(name));
    Ok(match SETTINGS.iter().find(is_stored) {
        Some(setting) => Effect::ReplyOnceStored { command: ask.spec.id, setting: setting.name },
        None => Effect::None,
    })
}

/// Sets them all, or none: settings that name files hold only if these can be opened.
fn set_all(ask: &Ask<'_>, pairs: &[(&[u8], &[u8])]) -> Result<(), Refusal> {
    let config = ask.host.config();
    let named = |name: &[u8]| SETTINGS.iter().find(|setting| setting.is_named(name));
    let settings: Vec<&Setting> = pairs.iter().filter_map(|(name, _)| named(name)).collect();
    let text = |setting: &Setting| config.text(setting.name).unwrap_or_default();
    let before: Vec<(&str, String)> = settings.iter().map(|setting| (setting.name, text(setting))).collect();
    config.set(pairs).map_err(|error| format!("ERR {error}"))?;
    let of_files = |files| settings.iter().find(|one| one.files == Some(files)).map(|one| (one.name, files));
    for (name, files) in SettingFiles::ALL.into_iter().filter_map(of_files) {
        let Err(why) = ask.host.reopen(files) else { continue };
        let back: Vec<(&[u8], &[u8])> = before.iter().map(|(name, text)| (name.as_bytes(), text.as_bytes())).collect();
        // They held before.
        let undone = config.set(&back).map_err(|error| error.to_string()).and_then(|()| ask.host.reopen(files));
        if let Err(why) = undone {
            log::error!("CONFIG SET of {name} cannot be taken back: {why}");
        }
        return Err(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}").into());
    }
    Ok(())
}

fn resetstat(ask: &mut Ask<'_>) -> Outcome {
    ask.host.stats().reset();
    ask.reply.ok();
    Ok(Effect::None)
}

fn rewrite(ask: &mut Ask<'_>) -> Outcome {
    match ask.host.config().rewrite() {
        Ok(()) => ask.reply.ok(),
        Err(RewriteError::NoFile) => return Err("ERR The server is running without a config file".into()),
        Err(RewriteError::Failed(reason)) => return Err(format!("ERR Rewriting config file: {reason}").into()),
    }
    Ok(Effect::None)
}
