//! The headers of calls.

use std::cell::OnceCell;
use std::time::Duration;

use async_nats::header::HeaderName;
use async_nats::{HeaderMap, HeaderValue, Subject};
use asyncsteps_actors::clock;
use asyncsteps_actors::sync::{FencingToken, ParseFencingTokenError};
use asyncsteps_executor::message::Headers;
use tokio::time::Instant;

pub(super) const UID: HeaderName = HeaderName::from_static("Ftn-Uid");
pub(super) const DEADLINE: HeaderName = HeaderName::from_static("Ftn-Deadline-Ms");
pub(super) const FENCE: HeaderName = HeaderName::from_static("Ftn-Fence");
pub(super) const KEY: HeaderName = HeaderName::from_static("Idempotency-Key");
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

/// The time that a request has to be answered by, if its caller says how long it waits; as an instant, because
/// another arbiter, whose times begin elsewhere, carries the request out.
///
/// # Errors
/// The text of the answer, if that is no number of milliseconds.
pub(super) fn deadline(headers: Option<&HeaderMap>) -> Result<Option<Instant>, &'static str> {
    let Some(left) = headers.and_then(|headers| headers.get(DEADLINE)) else { return Ok(None) };
    let left = left.as_str().parse().map_err(|_| "Ftn-Deadline-Ms is no number of milliseconds")?;
    Ok(Some(clock::instant(clock::now() + Duration::from_millis(left))))
}

/// Tokens as a header.
pub(super) fn from_fences(fences: &[FencingToken]) -> String {
    fences.iter().map(FencingToken::to_string).collect::<Vec<_>>().join(",")
}

/// The tokens of the locks that the caller holds.
pub(super) fn fences(headers: &HeaderMap) -> Result<Vec<FencingToken>, ParseFencingTokenError> {
    let tokens = text(headers, FENCE).split(',').filter(|token| !token.is_empty());
    tokens.map(str::parse).collect()
}

/// A duration in whole milliseconds, rounded up: a short time is not zero.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn name_of(name: &HeaderName) -> &str {
    name.as_ref()
}

/// Whether a name is not one of ours in other letters: those are not looked at, and not signed.
fn is_spelled(name: &HeaderName) -> bool {
    let ours = [UID, DEADLINE, KEY, NODE, MAC, UNSIGNED, PROBE];
    ours.iter().all(|ours| ours == name || !name_of(ours).eq_ignore_ascii_case(name_of(name)))
}

/// The headers of a call, as the functions of the executor see them.
///
/// The reply subject distinguishes an attempt from all others that any node makes. It replaces the
/// header `Ftn-Uid` of calls without a key, so that most calls need none.
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
        let mut headers = self.headers.iter().filter(|(name, _)| is_spelled(name));
        match headers.find(|(other, _)| name_of(other).eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.first().map(HeaderValue::as_str),
            None => name.eq_ignore_ascii_case(name_of(&UID)).then_some(self.reply.as_str()),
        }
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        let listed = self.listed.get_or_init(|| {
            let headers = self.headers.iter().filter(|(name, _)| is_spelled(name));
            let each = headers.flat_map(|(name, values)| {
                let name = name_of(name).to_ascii_lowercase();
                values.iter().map(move |value| (name.clone(), value.as_str().to_owned()))
            });
            let uid = name_of(&UID).to_ascii_lowercase();
            let without_key =
                self.headers.get(UID).is_none().then(|| (uid, self.reply.to_string()));
            let mut listed: Vec<_> = each.chain(without_key).collect();
            // async-nats keeps them in no order; values of one name keep theirs
            listed.sort_by(|(one, _), (other, _)| one.cmp(other));
            listed
        });
        Box::new(listed.iter().map(|(name, value)| (&**name, &**value)))
    }
}
