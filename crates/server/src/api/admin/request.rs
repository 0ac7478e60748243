//! The requests of operators, as words: the arguments of KV.ADMIN, which routes of HTTP are turned into.

use super::error::AdminError;
use cluster::ACCEPT_DATA_LOSS;
use vocab::ShardId;
use vocab::limits::EVENT_BYTES_MAX;

/// Events of one answer, unless more are asked for.
const EVENTS_SHOWN: usize = 100;
/// Most events of one answer.
const EVENTS_SHOWN_MAX: usize = 1000;

/// How a request may be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Made twice, it would be another change.
    Never,
    /// Made twice, it is refused: then it is not known what has become of it.
    UnlessRefused,
    /// Made twice, it is as made once.
    Freely,
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminRequest {
    /// How the store is, in short.
    Status,
    /// Each node.
    Nodes,
    /// Each shard.
    Shards,
    /// The map, as it is.
    Map,
    /// What has happened: after the event of that number, or the newest.
    Events {
        after: Option<u64>,
        limit: usize,
    },
    /// An event from outside is to be remembered: one word, and what it was.
    Note {
        kind: &'static str,
        text: String,
    },
    Settings(SettingsRequest),
    Plan(PlanRequest),
    /// A node is to lead nothing.
    DrainLeaders(String),
    Verify(VerifyRequest),
    /// The metadata group has lost its majority for good.
    RecoverMap(RecoverRequest),
    /// Another node asks for the replicas that this node has.
    Replicas,
    /// Another node asks what a comparison has found here.
    Digest(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingsRequest {
    List,
    Get(String),
    /// What the node that is asked knows of it.
    Known(String),
    Set(String, String),
    /// To a value, if it has another one now: nodes ask so, which have worked out the one from the other.
    Replace {
        name: String,
        was: String,
        now: String,
    },
    Reset(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlanRequest {
    Preview(Vec<String>),
    Apply { words: Vec<String>, reason: Option<String> },
    List,
    Show(u64),
    Pause(u64),
    Resume(u64),
    Cancel(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VerifyRequest {
    /// Begin to compare; all shards if none is named.
    Start(Vec<ShardId>),
    /// How far it is, and what was found.
    Status,
    Stop,
}

/// How the metadata group goes on without its majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoverRequest {
    /// Which replica would go on, and which are given up.
    Preview,
    /// Have it go on.
    Apply,
    /// Another node asks this node's replica to go on.
    Here,
}

/// Which node has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The node that was asked.
    Here,
    /// The leader of the metadata group.
    Meta,
    /// The leader of the metadata group, or the node that was asked if there is no leader.
    MetaOrHere,
}

impl AdminRequest {
    /// Reads the words behind KV.ADMIN.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, AdminError> {
        let [verb, rest @ ..] = words else { return Err(usage("a verb is missing")) };
        let alone = |request: Self| {
            if rest.is_empty() { Ok(request) } else { Err(usage(&format!("{verb} takes no arguments"))) }
        };
        match verb.to_ascii_uppercase().as_str() {
            "STATUS" => alone(Self::Status),
            "NODES" => alone(Self::Nodes),
            "SHARDS" => alone(Self::Shards),
            "MAP" => alone(Self::Map),
            "REPLICAS" => alone(Self::Replicas),
            "EVENTS" => events(rest),
            "NOTE" => note(rest),
            "SETTINGS" => settings(rest).map(Self::Settings),
            "PLAN" => plan(rest).map(Self::Plan),
            "VERIFY" => verify(rest).map(Self::Verify),
            "DRAIN-LEADERS" => match rest {
                [node] => Ok(Self::DrainLeaders((*node).to_owned())),
                _ => Err(usage("DRAIN-LEADERS node")),
            },
            "RECOVER-MAP" => {
                recover(rest).map(Self::RecoverMap).ok_or_else(|| usage("RECOVER-MAP PREVIEW | accept-data-loss"))
            }
            "RECOVER-HERE" => alone(Self::RecoverMap(RecoverRequest::Here)),
            "DIGEST" => match rest {
                [comparison] => number(comparison).map(Self::Digest),
                _ => Err(usage("DIGEST comparison")),
            },
            _ => Err(usage(&format!("there is no {verb}; KV.ADMIN HELP lists what there is"))),
        }
    }

    /// How it may be asked again of a leader that has fallen silent, or of the next one.
    pub(super) fn repeats(&self) -> Repeats {
        match self {
            Self::Settings(SettingsRequest::Replace { .. }) => Repeats::Never,
            Self::Plan(PlanRequest::Apply { .. }) | Self::DrainLeaders(_) => Repeats::UnlessRefused,
            _ => Repeats::Freely,
        }
    }

    pub(crate) fn whose(&self) -> Whose {
        match self {
            Self::Status | Self::Nodes | Self::Shards | Self::Map => Whose::MetaOrHere,
            Self::Settings(SettingsRequest::Known(_)) => Whose::Here,
            Self::Events { .. } | Self::Note { .. } | Self::Settings(_) | Self::Plan(_) | Self::DrainLeaders(_) => {
                Whose::Meta
            }
            Self::Verify(_) | Self::RecoverMap(_) | Self::Replicas | Self::Digest(_) => Whose::Here,
        }
    }
}

fn usage(text: &str) -> AdminError {
    AdminError::Usage(text.to_owned())
}

fn number(text: &str) -> Result<u64, AdminError> {
    text.parse().map_err(|_| usage(&format!("{text} is not a number")))
}

/// `[AFTER number] [LIMIT count]`
fn events(words: &[&str]) -> Result<AdminRequest, AdminError> {
    let (mut after, mut limit) = (None, EVENTS_SHOWN);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| usage("EVENTS [AFTER number] [LIMIT count]"))?;
        match word.to_ascii_uppercase().as_str() {
            "AFTER" => after = Some(number(value)?),
            "LIMIT" => limit = usize::try_from(number(value)?).unwrap_or(usize::MAX).clamp(1, EVENTS_SHOWN_MAX),
            _ => return Err(usage("EVENTS [AFTER number] [LIMIT count]")),
        }
    }
    Ok(AdminRequest::Events { after, limit })
}

/// `BACKUP text`, `RESTORE text`
fn note(words: &[&str]) -> Result<AdminRequest, AdminError> {
    let kinds = ["backup", "restore"];
    match words {
        [word, text] if text.len() <= EVENT_BYTES_MAX => {
            let kind = kinds.into_iter().find(|kind| word.eq_ignore_ascii_case(kind));
            let note = |kind| AdminRequest::Note { kind, text: (*text).to_owned() };
            kind.map(note).ok_or_else(|| usage("NOTE BACKUP | RESTORE text"))
        }
        [_, _] => Err(usage(&format!("a note has at most {EVENT_BYTES_MAX} bytes"))),
        _ => Err(usage("NOTE BACKUP | RESTORE text")),
    }
}

fn settings(words: &[&str]) -> Result<SettingsRequest, AdminError> {
    let (verb, rest) = words.split_first().map_or(("LIST", words), |(verb, rest)| (*verb, rest));
    match (verb.to_ascii_uppercase().as_str(), rest) {
        ("LIST", []) => Ok(SettingsRequest::List),
        ("GET", [name]) => Ok(SettingsRequest::Get((*name).to_owned())),
        ("KNOWN", [name]) => Ok(SettingsRequest::Known((*name).to_owned())),
        ("SET", [name, value]) => Ok(SettingsRequest::Set((*name).to_owned(), (*value).to_owned())),
        ("SET", [name, now, word, was]) if word.eq_ignore_ascii_case("WAS") => {
            let [name, was, now] = [name, was, now].map(|word| (*word).to_owned());
            Ok(SettingsRequest::Replace { name, was, now })
        }
        ("RESET", [name]) => Ok(SettingsRequest::Reset((*name).to_owned())),
        _ => Err(usage("SETTINGS LIST | GET name | SET name value | RESET name")),
    }
}

fn plan(words: &[&str]) -> Result<PlanRequest, AdminError> {
    let [verb, rest @ ..] = words else { return Err(usage(PLAN_USAGE)) };
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match (verb.to_ascii_uppercase().as_str(), rest) {
        ("LIST", []) => Ok(PlanRequest::List),
        ("SHOW", [id]) => number(id).map(PlanRequest::Show),
        ("PAUSE", [id]) => number(id).map(PlanRequest::Pause),
        ("RESUME", [id]) => number(id).map(PlanRequest::Resume),
        ("CANCEL", [id]) => number(id).map(PlanRequest::Cancel),
        ("PREVIEW", [_, ..]) => Ok(PlanRequest::Preview(owned(rest))),
        ("APPLY", [words @ .., word, reason]) if !words.is_empty() && word.eq_ignore_ascii_case("REASON") => {
            Ok(PlanRequest::Apply { words: owned(words), reason: Some((*reason).to_owned()) })
        }
        ("APPLY", [_, ..]) => Ok(PlanRequest::Apply { words: owned(rest), reason: None }),
        _ => Err(usage(PLAN_USAGE)),
    }
}

/// Reads `PREVIEW` or `accept-data-loss`.
fn recover(words: &[&str]) -> Option<RecoverRequest> {
    match words {
        [word] if word.eq_ignore_ascii_case("PREVIEW") => Some(RecoverRequest::Preview),
        [word] if word.eq_ignore_ascii_case(ACCEPT_DATA_LOSS) => Some(RecoverRequest::Apply),
        _ => None,
    }
}

const PLAN_USAGE: &str = "PLAN LIST | SHOW id | PREVIEW kind … | APPLY kind … [REASON text] | PAUSE id | RESUME id | \
                          CANCEL id";

fn verify(words: &[&str]) -> Result<VerifyRequest, AdminError> {
    let (verb, rest) = words.split_first().map_or(("STATUS", words), |(verb, rest)| (*verb, rest));
    let shard = |text: &&str| text.parse().map(ShardId).map_err(|_| usage(&format!("{text} is no shard's number")));
    match (verb.to_ascii_uppercase().as_str(), rest) {
        ("START", shards) => shards.iter().map(shard).collect::<Result<_, _>>().map(VerifyRequest::Start),
        ("STATUS", []) => Ok(VerifyRequest::Status),
        ("STOP", []) => Ok(VerifyRequest::Stop),
        _ => Err(usage("VERIFY START [shard …] | STATUS | STOP")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn words_are_read_and_what_is_wrong_is_told() {
        let read = |text: &str| AdminRequest::parse(&text.split(' ').collect::<Vec<_>>());
        for (text, request) in [
            ("status", AdminRequest::Status),
            ("EVENTS", AdminRequest::Events { after: None, limit: 100 }),
            ("EVENTS limit 5 AFTER 7", AdminRequest::Events { after: Some(7), limit: 5 }),
            ("SETTINGS", AdminRequest::Settings(SettingsRequest::List)),
            ("SETTINGS set a b", AdminRequest::Settings(SettingsRequest::Set("a".to_owned(), "b".to_owned()))),
            ("SETTINGS known a", AdminRequest::Settings(SettingsRequest::Known("a".to_owned()))),
            (
                "SETTINGS set a b was c",
                AdminRequest::Settings(SettingsRequest::Replace {
                    name: "a".to_owned(),
                    was: "c".to_owned(),
                    now: "b".to_owned(),
                }),
            ),
            ("PLAN PAUSE 3", AdminRequest::Plan(PlanRequest::Pause(3))),
            (
                "PLAN APPLY drain-node a REASON disk",
                AdminRequest::Plan(PlanRequest::Apply {
                    words: vec!["drain-node".to_owned(), "a".to_owned()],
                    reason: Some("disk".to_owned()),
                }),
            ),
            ("VERIFY START 1 2", AdminRequest::Verify(VerifyRequest::Start(vec![ShardId(1), ShardId(2)]))),
            ("DIGEST 9", AdminRequest::Digest(9)),
            ("note Backup taken", AdminRequest::Note { kind: "backup", text: "taken".to_owned() }),
        ] {
            assert_eq!(read(text), Ok(request), "{text}");
        }
        for text in [
            "nosuch",
            "STATUS x",
            "EVENTS AFTER",
            "EVENTS AFTER x",
            "SETTINGS SET a",
            "PLAN",
            "PLAN SHOW x",
            "NOTE plan x",
        ] {
            assert!(matches!(read(text), Err(AdminError::Usage(_))), "{text}");
        }
        assert_eq!(read("STATUS").unwrap().whose(), Whose::MetaOrHere);
        assert_eq!(read("PLAN LIST").unwrap().whose(), Whose::Meta);
    }
}
