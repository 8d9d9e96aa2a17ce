//! The headers of calls.

use std::cell::OnceCell;
use std::time::Duration;

use async_nats::header::HeaderName;
use async_nats::{HeaderMap, HeaderValue, Subject};
use asyncsteps_executor::message::Headers;

pub(super) const UID: HeaderName = HeaderName::from_static("Ftn-Uid");
pub(super) const DEADLINE: HeaderName = HeaderName::from_static("Ftn-Deadline-Ms");
pub(super) const NODE: HeaderName = HeaderName::from_static("Ftn-Node");
pub(super) const MAC: HeaderName = HeaderName::from_static("Ftn-Mac");
pub(super) const UNSIGNED: HeaderName = HeaderName::from_static("Ftn-Unsigned");
pub(super) const PROBE: HeaderName = HeaderName::from_static("Ftn-Probe");
pub(super) const TRACE: HeaderName = HeaderName::from_static("traceparent");
pub(super) const SERVICE_ERROR: HeaderName = HeaderName::from_static("Nats-Service-Error");
pub(super) const SERVICE_ERROR_CODE: HeaderName =
    HeaderName::from_static("Nats-Service-Error-Code");

/// A header as text; empty if there is none.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).map_or("", HeaderValue::as_str)
}

/// How long the caller still waits, if it says so.
pub(super) fn time_left(headers: &HeaderMap) -> Option<Duration> {
    text(headers, DEADLINE).parse().ok().map(Duration::from_millis)
}

/// A duration in whole milliseconds, rounded up: what is short is not nothing.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn name_of(name: &HeaderName) -> &str {
    name.as_ref()
}

/// The headers of a call, as the functions of the executor see them.
///
/// The reply subject tells an attempt from all others that any node makes. It stands for the header
/// `Ftn-Uid` of calls without a key, so that most calls need none.
pub(super) struct CallHeaders {
    headers: HeaderMap,
    reply: Subject,
    /// With names in lower case, once all are asked for.
    listed: OnceCell<Vec<(String, String)>>,
}

impl CallHeaders {
    pub(super) fn new(headers: HeaderMap, reply: Subject) -> Self {
        Self { headers, reply, listed: OnceCell::new() }
    }
}

impl Headers for CallHeaders {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        match headers.find(|(other, _)| name_of(other).eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.first().map(HeaderValue::as_str),
            None => name.eq_ignore_ascii_case(name_of(&UID)).then_some(self.reply.as_str()),
        }
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        let listed = self.listed.get_or_init(|| {
            let each = self.headers.iter().flat_map(|(name, values)| {
                let name = name_of(name).to_ascii_lowercase();
                values.iter().map(move |value| (name.clone(), value.as_str().to_owned()))
            });
            let uid = name_of(&UID).to_ascii_lowercase();
            let without_key =
                self.headers.get(UID).is_none().then(|| (uid, self.reply.to_string()));
            each.chain(without_key).collect()
        });
        Box::new(listed.iter().map(|(name, value)| (&**name, &**value)))
    }
}
