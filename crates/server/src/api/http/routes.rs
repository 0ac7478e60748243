//! The routes: one table that requests are looked up in and that the OpenAPI document is made from.

use super::given::{Given, unescape};
use crate::api::admin::AdminError;

/// One route.
pub(super) struct Route {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub(super) method: &'static str,
    /// Its path; a part in braces stands for anything.
    pub(super) path: &'static str,
    /// A name of its own.
    pub(super) id: &'static str,
    /// What it is for.
    pub(super) summary: &'static str,
    /// What may stand behind the question mark: name, what for.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// What the body is, by the name of its schema.
    pub(super) body: Option<&'static str>,
    /// What is answered, by the name of its schema.
    pub(super) answer: &'static str,
    /// What answers it.
    pub(super) does: Does,
}

/// What answers a route.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// The admin function, with these words.
    Admin(fn(&Given) -> Result<Vec<String>, AdminError>),
    Metrics,
    Health,
    Ready,
    OpenApi,
    Console,
}

impl Does {
    /// Whether it is for everybody, whatever password there is.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }
}

const fn get(path: &'static str, id: &'static str, summary: &'static str, answer: &'static str, does: Does) -> Route {
    Route { method: "GET", path, id, summary, query: &[], body: None, answer, does }
}

const fn admin(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    answer: &'static str,
    words: fn(&Given) -> Result<Vec<String>, AdminError>,
) -> Route {
    Route { method, path, id, summary, query: &[], body: None, answer, does: Does::Admin(words) }
}

impl Route {
    const fn asks(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    const fn takes(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    get("/", "console", "The console: a page that shows how the store is.", "html", Does::Console),
    get("/metrics", "metrics", "Figures of this node, in the text format of Prometheus.", "text", Does::Metrics),
    get("/healthz", "healthz", "Whether the process lives. Asks for no password.", "text", Does::Health),
    get(
        "/readyz",
        "readyz",
        "Whether the node takes part (200) or not (503). Asks for no password.",
        "Ready",
        Does::Ready,
    ),
    get("/openapi.json", "openapi", "This document.", "object", Does::OpenApi),
    admin("GET", "/api/v1/status", "getStatus", "How the store is, in short.", "Status", |_| words(&["STATUS"])),
    admin("GET", "/api/v1/nodes", "listNodes", "Each node, with its figures.", "Nodes", |_| words(&["NODES"])),
    admin("GET", "/api/v1/shards", "listShards", "Each shard, with its replicas.", "Shards", |_| words(&["SHARDS"])),
    admin("GET", "/api/v1/map", "getMap", "The map, as it is.", "Map", |_| words(&["MAP"])),
    admin("GET", "/api/v1/events", "listEvents", "What has happened, the oldest first.", "Events", events).asks(&[
        ("after", "only events with higher numbers; without it, the newest"),
        ("limit", "how many at most (1 to 1000; 100 unless given)"),
    ]),
    admin("GET", "/api/v1/settings", "listSettings", "What is set for the whole store.", "Settings", |_| {
        words(&["SETTINGS", "LIST"])
    }),
    admin("GET", "/api/v1/settings/{name}", "getSetting", "One setting.", "Setting", |given| {
        words(&["SETTINGS", "GET", &given.path[0]])
    }),
    admin(
        "PUT",
        "/api/v1/settings/{name}",
        "setSetting",
        "Changes a setting, on all nodes at once.",
        "Setting",
        |given| words(&["SETTINGS", "SET", &given.path[0], &given.text("value")?]),
    )
    .takes("SetSetting"),
    admin("DELETE", "/api/v1/settings/{name}", "resetSetting", "Lets the default hold again.", "Setting", |given| {
        words(&["SETTINGS", "RESET", &given.path[0]])
    }),
    admin("GET", "/api/v1/plans", "listPlans", "All plans that are remembered.", "Plans", |_| words(&["PLAN", "LIST"])),
    admin("POST", "/api/v1/plans", "applyPlan", "Begins a plan.", "BegunPlan", |given| plan("APPLY", given))
        .takes("NewPlan"),
    admin(
        "POST",
        "/api/v1/plans/preview",
        "previewPlan",
        "What a plan would do; nothing is begun.",
        "Preview",
        |given| plan("PREVIEW", given),
    )
    .takes("NewPlan"),
    admin("GET", "/api/v1/plans/{id}", "getPlan", "One plan, with the shards that it changes now.", "Plan", |given| {
        words(&["PLAN", "SHOW", &given.path[0]])
    }),
    admin(
        "POST",
        "/api/v1/plans/{id}/pause",
        "pausePlan",
        "No step is begun any more; those under way end.",
        "BegunPlan",
        |given| words(&["PLAN", "PAUSE", &given.path[0]]),
    ),
    admin("POST", "/api/v1/plans/{id}/resume", "resumePlan", "A plan that was paused goes on.", "BegunPlan", |given| {
        words(&["PLAN", "RESUME", &given.path[0]])
    }),
    admin(
        "POST",
        "/api/v1/plans/{id}/cancel",
        "cancelPlan",
        "A plan is given up; what was done stays.",
        "BegunPlan",
        |given| words(&["PLAN", "CANCEL", &given.path[0]]),
    ),
    admin(
        "POST",
        "/api/v1/nodes/{node}/drain-leaders",
        "drainLeaders",
        "The node leads nothing until it was restarted.",
        "BegunPlan",
        |given| words(&["DRAIN-LEADERS", &given.path[0]]),
    ),
    admin(
        "GET",
        "/api/v1/verify",
        "getVerification",
        "How far this node's comparison of replicas is.",
        "Verification",
        |_| words(&["VERIFY", "STATUS"]),
    ),
    admin(
        "POST",
        "/api/v1/verify",
        "startVerification",
        "Has this node compare map, nodes and replicas.",
        "Verification",
        |given| {
            let shards = given.list("shards")?;
            let words = ["VERIFY", "START"].into_iter().map(str::to_owned);
            Ok(words.chain(shards).collect())
        },
    )
    .takes("StartVerification"),
    admin("DELETE", "/api/v1/verify", "stopVerification", "Ends the comparison.", "Verification", |_| {
        words(&["VERIFY", "STOP"])
    }),
];

fn words(words: &[&str]) -> Result<Vec<String>, AdminError> {
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

fn events(given: &Given) -> Result<Vec<String>, AdminError> {
    let mut words = vec!["EVENTS".to_owned()];
    for (name, word) in [("after", "AFTER"), ("limit", "LIMIT")] {
        if let Some(value) = given.query(name) {
            words.extend([word.to_owned(), value.to_owned()]);
        }
    }
    Ok(words)
}

fn plan(verb: &str, given: &Given) -> Result<Vec<String>, AdminError> {
    let mut words = vec!["PLAN".to_owned(), verb.to_owned(), given.text("kind")?];
    words.extend(given.list("arguments")?);
    if let Some(reason) = given.optional("reason")?
        && verb == "APPLY"
    {
        words.extend(["REASON".to_owned(), reason]);
    }
    Ok(words)
}

/// What a path leads to.
pub(super) enum Found {
    /// A route, and the parts of the path that stand for something.
    Route(&'static Route, Vec<String>),
    /// There is something, but not for that method: for these.
    OtherMethods(Vec<&'static str>),
    Nothing,
}

/// Looks a request up. HEAD is GET without the body.
pub(super) fn find(method: &str, path: &str) -> Found {
    let method = if method == "HEAD" { "GET" } else { method };
    let fitting = ROUTES.iter().filter_map(|route| Some((route, parts(route.path, path)?)));
    let mut others = Vec::new();
    // A path without braces goes before one that has some.
    let mut found: Option<(&Route, Vec<String>)> = None;
    for (route, parts) in fitting {
        if route.method != method {
            others.push(route.method);
        } else if found.as_ref().is_none_or(|(_, known)| known.len() > parts.len()) {
            found = Some((route, parts));
        }
    }
    match found {
        Some((route, parts)) => Found::Route(route, parts),
        None if others.is_empty() => Found::Nothing,
        None => Found::OtherMethods(others),
    }
}

fn parts(pattern: &str, path: &str) -> Option<Vec<String>> {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    let mut parts = Vec::new();
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return Some(parts),
            (Some(name), Some(part)) if name.starts_with('{') && !part.is_empty() => parts.push(unescape(part, false)?),
            (Some(name), Some(part)) if name == part => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_are_to() {
        let found = |method: &str, path: &str| match find(method, path) {
            Found::Route(route, parts) => format!("{} {}", route.id, parts.join(",")),
            Found::OtherMethods(methods) => format!("only {}", methods.join(",")),
            Found::Nothing => "nothing".to_owned(),
        };
        for (method, path, expected) in [
            ("GET", "/", "console "),
            ("HEAD", "/metrics", "metrics "),
            ("POST", "/metrics", "only GET"),
            ("GET", "/api/v1/plans/7", "getPlan 7"),
            ("POST", "/api/v1/plans/preview", "previewPlan "),
            ("POST", "/api/v1/plans/7/pause", "pausePlan 7"),
            ("POST", "/api/v1/nodes/10.0.0.1%3A7000/drain-leaders", "drainLeaders 10.0.0.1:7000"),
            ("PUT", "/api/v1/settings/auto-split", "setSetting auto-split"),
            ("PATCH", "/api/v1/settings/auto-split", "only GET,PUT,DELETE"),
            ("GET", "/api/v1/plans/", "nothing"),
            ("GET", "/api/v1/plans/%zz", "nothing"),
            ("GET", "/nosuch", "nothing"),
        ] {
            assert_eq!(found(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn every_route_of_the_api_is_a_verb_of_the_admin_function() {
        let body = serde_json::json!({"value": "1", "kind": "rebalance"});
        for route in ROUTES {
            let Does::Admin(words) = route.does else { continue };
            let given = Given { path: vec!["1".to_owned()], query: Vec::new(), body: body.clone() };
            let words = words(&given).expect("everything is given");
            assert!(crate::api::admin::understands(&words), "{} {}: {words:?}", route.method, route.path);
        }
    }
}
