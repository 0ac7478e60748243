//! Runs an operator's request: on this node, or on the node that has the newest map.

use super::error::{AdminError, Answer, decode};
use super::query::{NodeQuery, mark};
use super::request::{AdminRequest, PlanRequest, Repeats, SettingsRequest, VerifyRequest, Whose};
use super::sight::{Sight, is_hopeless};
use super::{events, maps, nodes, plans, preview, recover, settings, shards, status, verify};
use crate::api::handlers::{CallHandler, PoolHandler};
use crate::os::steady_us;
use crate::peers::{call_leader, change_by_leader, change_once_by_leader};
use crate::shared::NodeShared;
use resp::{Proto, Reply};
use std::sync::Arc;
use vocab::ShardId;

/// The name of the command.
const NAME: &str = "KV.ADMIN";

/// Who runs the command of that name, if it is one of these. For threads of the pool.
pub(crate) fn handler(name: &str) -> Option<PoolHandler> {
    let verb = name.strip_prefix(NAME)?.strip_prefix('|')?;
    (!matches!(verb, "HELP" | "INIT")).then_some(reply as PoolHandler)
}

/// What runs a command of that name for another node.
pub(crate) fn call_handler(name: &str) -> Option<CallHandler> {
    (name == NAME).then_some(serve as CallHandler)
}

/// Answers a command of a client: a text of JSON, or an error.
fn reply(store: &Arc<NodeShared>, args: &[&[u8]], reply: &mut Reply) {
    let words: Result<Vec<&str>, _> = args[1..].iter().map(|arg| std::str::from_utf8(arg)).collect();
    let answer = match words {
        Ok(words) => admin(store, &words),
        Err(_) => Err(AdminError::Usage("an argument is not text".to_owned())),
    };
    put(answer, reply);
}

fn put(answer: Answer, reply: &mut Reply) {
    match answer {
        Ok(value) => reply.bulk(value.to_string().as_bytes()),
        Err(error) => reply.error(&error.reply()),
    }
}

/// Answers what an operator asks. Waits, for other nodes too.
pub(crate) fn admin(store: &Arc<NodeShared>, words: &[&str]) -> Answer {
    let request = AdminRequest::parse(words)?;
    match request.whose() {
        Whose::Here => here(store, &request),
        Whose::Meta => at_meta(store, words, &request),
        Whose::MetaOrHere => match at_meta(store, words, &request) {
            Err(AdminError::Unavailable(_)) => seen(&Sight::of(store), &request),
            answer => answer,
        },
    }
}

/// Answers another node, as its command came, about a shard: one RESP3 frame.
fn serve(store: &Arc<NodeShared>, shard: ShardId, args: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(Proto::Resp3);
    if let [_, verb, comparison] = args
        && verb.eq_ignore_ascii_case(b"MARK")
    {
        put(mark(store, shard, comparison), &mut reply);
        return reply.buf;
    }
    let words: Result<Vec<&str>, _> = args[1..].iter().map(|arg| std::str::from_utf8(arg)).collect();
    let words = words.map_err(|_| AdminError::Usage("an argument is not text".to_owned()));
    let answer = words.and_then(|words| AdminRequest::parse(&words)).and_then(|request| match request.whose() {
        Whose::Here => here(store, &request),
        // It was sent here because this node leads; if it does not any more, the caller looks for the leader again.
        Whose::Meta | Whose::MetaOrHere => leading(store, &request),
    });
    put(answer, &mut reply);
    reply.buf
}

fn at_meta(store: &Arc<NodeShared>, words: &[&str], request: &AdminRequest) -> Answer {
    if store.known().map.is_none() {
        return Err(AdminError::Unavailable(
            "this node belongs to no store yet: `basalt ctl init` makes it".to_owned(),
        ));
    }
    if leads(store) {
        return leading(store, request);
    }
    if is_hopeless(store, ShardId::META) {
        let text = "the metadata group (shard 0) has lost its majority: `ctl shards --unwell` says what it waits for";
        return Err(AdminError::Unavailable(text.to_owned()));
    }
    let mut args: Vec<&[u8]> = vec![NAME.as_bytes()];
    args.extend(words.iter().map(|word| word.as_bytes()));
    // What compares with the value before is asked once: of a leader that falls silent it is not known whether it has compared.
    let call = match request.repeats() {
        Repeats::Never => change_once_by_leader,
        Repeats::UnlessRefused => change_by_leader,
        Repeats::Freely => call_leader,
    };
    let frame = call(store, ShardId::META, &args).map_err(|text| AdminError::of_reply(&text))?;
    decode(&frame)
}

fn leads(store: &NodeShared) -> bool {
    store.known().handle(ShardId::META).is_some_and(|handle| handle.serving())
}

/// On the leader of the metadata group.
fn leading(store: &Arc<NodeShared>, request: &AdminRequest) -> Answer {
    let handle = store.known().handle(ShardId::META).filter(|handle| handle.serving()).cloned();
    let not_leading = || AdminError::Unavailable("this node does not lead the metadata group".to_owned());
    let handle = handle.ok_or_else(not_leading)?;
    if !store.access().confirm_leader(&handle, steady_us()) {
        return Err(not_leading());
    }
    match request {
        AdminRequest::Status | AdminRequest::Nodes | AdminRequest::Shards | AdminRequest::Map => {
            seen(&Sight::of_leader(store), request)
        }
        AdminRequest::Events { after, limit } => events::list(&handle, *after, *limit),
        AdminRequest::Note { kind, text } => events::note(store, &handle, kind, text),
        AdminRequest::Settings(SettingsRequest::List) => settings::list(&handle),
        AdminRequest::Settings(SettingsRequest::Get(name)) => settings::get(&handle, name),
        AdminRequest::Settings(SettingsRequest::Known(name)) => settings::known_here(store, name),
        AdminRequest::Settings(SettingsRequest::Set(name, value)) => {
            settings::set(store, &handle, name, Some(value), None)
        }
        AdminRequest::Settings(SettingsRequest::Replace { name, was, now }) => {
            settings::set(store, &handle, name, Some(now), Some(was))
        }
        AdminRequest::Settings(SettingsRequest::Reset(name)) => settings::set(store, &handle, name, None, None),
        AdminRequest::Plan(plan) => match plan {
            PlanRequest::List => Ok(plans::list(&Sight::of_leader(store))),
            PlanRequest::Show(id) => plans::show(&Sight::of_leader(store), *id),
            PlanRequest::Preview(words) => preview::preview(&Sight::of_leader(store), &handle, words),
            PlanRequest::Apply { words, reason } => plans::apply(store, &handle, words, reason.as_deref()),
            PlanRequest::Pause(id) => plans::set(store, &handle, *id, cluster::PlanState::Paused),
            PlanRequest::Resume(id) => plans::set(store, &handle, *id, cluster::PlanState::Running),
            PlanRequest::Cancel(id) => plans::set(store, &handle, *id, cluster::PlanState::Cancelled),
        },
        AdminRequest::DrainLeaders(node) => {
            plans::apply(store, &handle, &["drain-leaders".to_owned(), node.clone()], None)
        }
        AdminRequest::Verify(_) | AdminRequest::RecoverMap(_) | AdminRequest::Replicas | AdminRequest::Digest(_) => {
            here(store, request)
        }
    }
}

/// What can be answered from one node's sight of the store.
fn seen(sight: &Sight, request: &AdminRequest) -> Answer {
    match request {
        AdminRequest::Status => Ok(status::status(sight)),
        AdminRequest::Nodes => Ok(nodes::list(sight)),
        AdminRequest::Shards => Ok(shards::list(sight)),
        _ => maps::map(sight),
    }
}

/// What is about this node.
fn here(store: &Arc<NodeShared>, request: &AdminRequest) -> Answer {
    match request {
        AdminRequest::Verify(VerifyRequest::Start(shards)) => verify::start(store, shards),
        AdminRequest::Verify(VerifyRequest::Status) => Ok(verify::state(store)),
        AdminRequest::Verify(VerifyRequest::Stop) => Ok(verify::stop(store)),
        AdminRequest::RecoverMap(request) => recover::run(store, *request),
        AdminRequest::Digest(comparison) => Ok(NodeQuery::Digest(*comparison).answer(store)),
        AdminRequest::Settings(SettingsRequest::Known(name)) => settings::known_here(store, name),
        _ => Ok(NodeQuery::Replicas.answer(store)),
    }
}
