//! Plans, for operators: begun, listed, paused, taken up again, given up.

use super::changes::{change, newest_map};
use super::error::AdminError;
use super::nodes;
use super::sight::Sight;
use crate::os::now_ms;
use crate::shared::NodeShared;
use cluster::{Change, Map, Plan, PlanKind, PlanState};
use node::ShardHandle;
use serde_json::{Value, json};
use std::sync::Arc;
use vocab::PlanId;
use vocab::limits::PLAN_DETAIL_BYTES_MAX;

pub(super) fn list(sight: &Sight) -> Value {
    json!({"nodes": sight.addresses(), "plans": sight.status.plans})
}

pub(super) fn show(sight: &Sight, id: u64) -> Result<Value, AdminError> {
    let plan = sight.status.plans.iter().find(|plan| plan.id == id).ok_or_else(|| unknown(id))?;
    let mut shown = json!(plan);
    let steps = sight.status.shards.iter().filter(|shard| shard.plan == Some(id));
    shown["shards_now"] = json!(steps.collect::<Vec<_>>());
    shown["nodes"] = json!(sight.addresses());
    Ok(shown)
}

fn unknown(id: u64) -> AdminError {
    AdminError::NotFound(format!("there is no plan {id}, or it is forgotten; `ctl plan list` lists them"))
}

/// What these words mean.
pub(super) fn read(map: &Map, words: &[String]) -> Result<PlanKind, AdminError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A name that no node has is reported first, whatever else is wrong.
    let missing = std::cell::RefCell::new(None);
    let node = |name: &str| {
        nodes::find(map, name).map_err(|error| {
            let text = error.text().to_owned();
            *missing.borrow_mut() = Some(error);
            text
        })
    };
    let kind = cluster::plan_from_words(&words, &node);
    kind.map_err(|text| missing.take().unwrap_or(AdminError::Usage(text)))
}

/// Whether it makes sense as nodes are: the map does not know.
pub(super) fn check(sight: &Sight, kind: &PlanKind) -> Result<(), AdminError> {
    let PlanKind::Repair(node) = kind else { return Ok(()) };
    let id = node.to_string();
    if sight.status.nodes.iter().any(|known| known.id == id && known.state == "up") {
        let text =
            format!("node {id} answers: there is nothing to repair; `rebuild` is for damage, `drain-node` empties it");
        return Err(AdminError::Refused(text));
    }
    Ok(())
}

/// Begins a plan.
pub(super) fn apply(
    store: &Arc<NodeShared>,
    handle: &ShardHandle,
    words: &[String],
    reason: Option<&str>,
) -> Result<Value, AdminError> {
    let detail = reason.unwrap_or("asked for by an operator");
    if detail.len() > PLAN_DETAIL_BYTES_MAX {
        return Err(AdminError::Usage(format!("a reason has at most {PLAN_DETAIL_BYTES_MAX} bytes")));
    }
    let at_ms = now_ms();
    let id = change(store, handle, |map| {
        let kind = read(map, words)?;
        if matches!(kind, PlanKind::Repair(_)) {
            check(&Sight::of_leader(store), &kind)?;
        }
        let id = PlanId(map.next_plan);
        Ok((Some(Change::BeginPlan { id, kind, at_ms, detail: detail.to_owned() }), id))
    })?;
    shown(handle, id)
}

/// Pauses a plan, takes it up again, or gives it up.
pub(super) fn set(store: &Arc<NodeShared>, handle: &ShardHandle, id: u64, now: PlanState) -> Result<Value, AdminError> {
    let at_ms = now_ms();
    change(store, handle, |map| {
        let plan = map.plans.get(&PlanId(id)).ok_or_else(|| unknown(id))?;
        if plan.state.has_ended() && plan.state != now {
            return Err(AdminError::Refused(format!("plan {id} is {} already", plan.state.word())));
        }
        let (was, detail) = (plan.state, plan.detail.clone());
        let change = (was != now).then_some(Change::SetPlan { id: PlanId(id), was, now, at_ms, detail });
        Ok((change, ()))
    })?;
    shown(handle, PlanId(id))
}

fn shown(handle: &ShardHandle, id: PlanId) -> Result<Value, AdminError> {
    let map = newest_map(handle)?;
    let plan = map.plans.get(&id).ok_or_else(|| unknown(id.0))?;
    Ok(described(plan))
}

fn described(plan: &Plan) -> Value {
    json!({
        "id": plan.id.0,
        "kind": plan.kind.word(),
        "about": cluster::plan_to_words(&plan.kind)[1..].join(" "),
        "state": plan.state.word(),
        "detail": plan.detail,
    })
}
