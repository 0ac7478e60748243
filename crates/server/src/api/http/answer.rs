//! Answers one request: finds its user and its route, checks the rights, and runs it.

use super::asker::Asker;
use super::body::{BodyError, Whole, read};
use super::given::{Given, pairs};
use super::login::Stranger;
use super::origin::{self, Refused};
use super::routes::{Does, Found, Route, find};
use super::seats::{Admits, Seat};
use super::{login, metrics, openapi, ready};
use crate::api::admin::{AdminError, admin};
use crate::shared::NodeShared;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use node::session::{ShownCertificate, is_protected};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// The console is one file that loads nothing from elsewhere, and stands in no page of another site.
const CONSOLE: &str = include_str!("console.html");
const CONSOLE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                              img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Answer = Response<Whole>;

/// Who asks.
pub(super) struct Client<'a> {
    /// Its address, where that is known.
    pub(super) from: Option<IpAddr>,
    /// The certificate that it has shown.
    pub(super) certificate: Option<ShownCertificate>,
    /// The seat of its connection.
    pub(super) seat: &'a Seat,
}

/// Answers one request. Waits as long as that takes.
pub(super) async fn answer(store: &Arc<NodeShared>, request: Request<Incoming>, client: Client<'_>) -> Answer {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let (route, path_parts) = match find(head.method.as_str(), &path) {
        Found::Route(route, parts) => (route, parts),
        Found::OtherMethods(methods) => {
            let mut refused = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("{} is not for {path}", head.method));
            if let Ok(allowed) = HeaderValue::from_str(&methods.join(", ")) {
                refused.headers_mut().insert(header::ALLOW, allowed);
            }
            return refused;
        }
        Found::Nothing => return problem(StatusCode::NOT_FOUND, "there is nothing here; /openapi.json tells what is"),
    };
    if !route.does.is_open() {
        if client.seat.admits() == Admits::Probes {
            return problem(StatusCode::SERVICE_UNAVAILABLE, "too many connections: only probes are answered now");
        }
        let asks_password = store.users.asks_password(&store.config);
        if !matches!(route.does, Does::Metrics) && is_protected(&store.config, asks_password, client.from) {
            let text = "protected mode: no password is set, so only this machine and requests for metrics are answered";
            return problem(StatusCode::FORBIDDEN, text);
        }
        if let Some((status, text)) = foreign(store, &head) {
            return problem(status, text);
        }
    }
    // A connection whose request has not come whole gives way to others, and one that has given way is gone.
    let is_whole = body.is_end_stream();
    if is_whole && !client.seat.set_busy(true) {
        return gave_way();
    }
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let asker = match route.does.is_open() {
        true => None,
        false => match login::user_of(store, authorization, client.certificate.as_ref(), client.from) {
            Ok(user) => Some(Asker { user, from: client.from }),
            Err(why) => return stranger(&why),
        },
    };
    if route.does.is_open() && !is_whole {
        // No one waits for what such a client may send, or not.
        return closing(serve(store, route, &Given::default(), None));
    }
    let bytes = match read(body).await {
        Ok(bytes) => bytes,
        Err(BodyError::TooLong) => return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"),
        Err(BodyError::Broken) => return problem(StatusCode::BAD_REQUEST, "the body cannot be read"),
    };
    if !is_whole && !client.seat.set_busy(true) {
        return gave_way();
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        // No page of another site can send this without being asked first whether it may.
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !kind.trim_start().to_ascii_lowercase().starts_with(JSON) {
            let text = "what changes something has to be sent with the header content-type: application/json";
            return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
        }
    }
    let body = match &bytes[..] {
        [] => Value::Null,
        bytes => match serde_json::from_slice(bytes) {
            Ok(body) => body,
            Err(e) => return problem(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {e}")),
        },
    };
    let Some(query) = pairs(head.uri.query().unwrap_or_default()) else {
        return problem(StatusCode::BAD_REQUEST, "the query cannot be read");
    };
    serve(store, route, &Given { path: path_parts, query, body }, asker.as_ref())
}

/// What is not carried out, as its client has been hung up on.
fn gave_way() -> Answer {
    closing(problem(StatusCode::SERVICE_UNAVAILABLE, "too many connections: this one has given way to another"))
}

/// An answer behind which the connection is closed.
fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn stranger(why: &Stranger) -> Answer {
    if *why == Stranger::TooOften {
        let text = "too many wrong passwords have come from this address: try again in a moment";
        return problem(StatusCode::TOO_MANY_REQUESTS, text);
    }
    let mut refused = problem(StatusCode::UNAUTHORIZED, "a user and a password are asked for");
    let challenge = HeaderValue::from_static("Basic realm=\"basalt\"");
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    refused
}

/// Why a request is refused that a page of another site has a browser send. Such a page knows no password, so none is
/// refused where there is one.
fn foreign(store: &NodeShared, head: &Parts) -> Option<(StatusCode, &'static str)> {
    let config = &store.config;
    if store.users.asks_password(config) {
        return None;
    }
    let text = |name| head.headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let named = head.uri.authority().map(Authority::as_str).or(text(header::HOST));
    let configured = config.http_names();
    let names: Vec<&str> = configured.iter().map(String::as_str).collect();
    match origin::check(named, text(header::ORIGIN), &names) {
        Ok(()) => None,
        Err(Refused::Host) => Some((
            StatusCode::MISDIRECTED_REQUEST,
            "this host is not one that the node is known by: set `http-hosts`, or a password",
        )),
        Err(Refused::Origin) => Some((StatusCode::FORBIDDEN, "the request comes from a page of another site")),
    }
}

fn serve(store: &Arc<NodeShared>, route: &Route, given: &Given, asker: Option<&Asker>) -> Answer {
    if matches!(route.does, Does::Metrics)
        && let Some(text) = asker.and_then(|asker| asker.refusal(store, &["INFO"]))
    {
        return problem(StatusCode::FORBIDDEN, &text);
    }
    match route.does {
        Does::Admin(words) => {
            let words = match words(given) {
                Ok(words) => words,
                Err(error) => return refusal(&error),
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let request: Vec<&str> = [&["KV.ADMIN"], &words[..]].concat();
            if let Some(text) = asker.and_then(|asker| asker.refusal(store, &request)) {
                return problem(StatusCode::FORBIDDEN, &text);
            }
            let answer = admin(store, &words);
            if let Some(asker) = asker {
                asker.note(store, &request, answer.as_ref().err());
            }
            match answer {
                Ok(value) => told(StatusCode::OK, JSON, value.to_string()),
                Err(error) => refusal(&error),
            }
        }
        Does::Metrics => told(StatusCode::OK, EXPOSITION, metrics::exposition(store)),
        Does::Health => told(StatusCode::OK, TEXT, "ok\n".to_owned()),
        Does::Ready => {
            let (is_ready, value) = ready::told(store);
            let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            told(status, JSON, value.to_string())
        }
        Does::OpenApi => told(StatusCode::OK, JSON, openapi::document().to_string()),
        Does::Console => {
            let mut page = told(StatusCode::OK, HTML, CONSOLE.to_owned());
            page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONSOLE_POLICY));
            page
        }
    }
}

fn refusal(error: &AdminError) -> Answer {
    let (code, status) = error.code();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    told(status, JSON, json!({"error": error.text(), "code": code}).to_string())
}

fn problem(status: StatusCode, text: &str) -> Answer {
    told(status, JSON, json!({"error": text, "code": status.as_str()}).to_string())
}

fn told(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Whole::new(text.into_bytes()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
