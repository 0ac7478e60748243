//! A bucket of an S3-compatible store. Requests are signed by `rusty-s3` and made by `ureq`.
//!
//! The environment says how, by the names that S3's own tools read: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
//! AWS_SESSION_TOKEN, AWS_REGION (default us-east-1), AWS_ENDPOINT_URL (default: Amazon's of the region).

use super::listed::Listed;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::cell::RefCell;
use std::time::Duration;
use ureq::Agent;
use ureq::http::StatusCode;

/// For how long a signed request is good.
const SIGNED_FOR: Duration = Duration::from_secs(600);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const REQUEST_WITHIN: Duration = Duration::from_secs(300);
/// A list's page.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// Times that a request is made when the store is busy or does not answer.
const TRIES: u32 = 5;

/// A prefix in a bucket.
pub(crate) struct S3 {
    bucket: Bucket,
    credentials: Credentials,
    prefix: String,
    agent: Agent,
}

impl S3 {
    pub(crate) fn open(name: &str, prefix: &str) -> Result<Self, String> {
        let region = std::env::var("AWS_REGION").unwrap_or_else(|_| "us-east-1".to_owned());
        let endpoint = std::env::var("AWS_ENDPOINT_URL").ok();
        // Stores of one's own rarely have a name for each bucket.
        let style = if endpoint.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.parse().map_err(|e| format!("AWS_ENDPOINT_URL {endpoint}: {e}"))?;
        let bucket =
            Bucket::new(endpoint, style, name.to_owned(), region).map_err(|e| format!("bucket {name}: {e}"))?;
        let credentials = Credentials::from_env()
            .ok_or("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set in the environment")?;
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(REQUEST_WITHIN))
            .http_status_as_error(false)
            .build();
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket, credentials, prefix, agent: config.into() })
    }

    /// Answers the tag of what is kept now, if the store tells.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<Option<String>, String> {
        let (object, tag) = (self.object(name), RefCell::new(None));
        self.repeat(name, 0, || {
            let url = self.bucket.put_object(Some(&self.credentials), &object).sign(SIGNED_FOR);
            let response = self.agent.put(url.as_str()).send(bytes)?;
            let told = response.headers().get("etag").and_then(|told| told.to_str().ok());
            tag.replace(told.map(without_quotes));
            Ok(response)
        })?;
        Ok(tag.into_inner())
    }

    pub(crate) fn get(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        let object = self.object(name);
        self.repeat(name, bytes_max, || {
            let url = self.bucket.get_object(Some(&self.credentials), &object).sign(SIGNED_FOR);
            self.agent.get(url.as_str()).call()
        })
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        let object = self.object(name);
        self.repeat(name, 0, || {
            let url = self.bucket.delete_object(Some(&self.credentials), &object).sign(SIGNED_FOR);
            self.agent.delete(url.as_str()).call()
        })?;
        Ok(())
    }

    pub(crate) fn list(&self, folder: &str) -> Result<Vec<Listed>, String> {
        let prefix = format!("{}{folder}/", self.prefix);
        let mut files = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let body = self.repeat(folder, LIST_BYTES_MAX, || {
                let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
                action.with_prefix(prefix.as_str());
                if let Some(next) = &next {
                    action.with_continuation_token(next.as_str());
                }
                self.agent.get(action.sign(SIGNED_FOR).as_str()).call()
            })?;
            let text = String::from_utf8(body).map_err(|_| format!("{folder}: the list is not UTF-8"))?;
            let page = rusty_s3::actions::ListObjectsV2::parse_response(&text)
                .map_err(|e| format!("{folder}: the list cannot be read: {e}"))?;
            let named = page.contents.into_iter().map(|object| {
                let name = object.key.strip_prefix(&prefix).unwrap_or(&object.key).to_owned();
                let tag = object.etag.as_deref().map(without_quotes);
                Listed { name, bytes: object.size.unwrap_or_default(), tag }
            });
            files.extend(named.filter(|file| !file.name.is_empty()));
            next = page.next_continuation_token;
            if next.is_none() {
                return Ok(files);
            }
        }
    }

    fn object(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Makes a request until it is answered, and gives its body.
    fn repeat(
        &self,
        name: &str,
        bytes_max: u64,
        request: impl Fn() -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Vec<u8>, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let problem = match request() {
                Ok(mut response) if response.status().is_success() => {
                    let body = response.body_mut().with_config().limit(bytes_max.max(1 << 16)).read_to_vec();
                    match body {
                        Ok(body) => return Ok(body),
                        Err(e) => e.to_string(),
                    }
                }
                Ok(mut response) => {
                    let status = response.status();
                    let body = response.body_mut().with_config().limit(1 << 16).read_to_string().unwrap_or_default();
                    let problem = format!("the store answers {status}: {}", body.trim());
                    if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS {
                        return Err(format!("{name}: {problem}"));
                    }
                    problem
                }
                Err(e) => e.to_string(),
            };
            if tries == TRIES {
                return Err(format!("{name}: {problem} (tried {TRIES} times)"));
            }
            std::thread::sleep(Duration::from_millis(200) * 2u32.pow(tries));
        }
    }
}

/// Headers and lists write a tag between quotes, some stores only one of them.
fn without_quotes(tag: &str) -> String {
    tag.trim_matches('"').to_owned()
}
