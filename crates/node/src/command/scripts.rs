//! The commands that run a script. What runs it is `crate::script`: an entry has its source, whatever names it.

use super::call::{HandlerRow, ScriptName, script};

pub(super) const ROWS: &[HandlerRow] = &[
    script("EVAL", ScriptName::Source, true),
    script("EVALSHA", ScriptName::Sha, true),
    script("EVAL_RO", ScriptName::Source, false),
    script("EVALSHA_RO", ScriptName::Sha, false),
    script("FCALL", ScriptName::Function, true),
    script("FCALL_RO", ScriptName::Function, false),
];
