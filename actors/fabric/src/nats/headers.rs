//! The headers of calls.

use std::cell::OnceCell;
use std::time::{Duration, UNIX_EPOCH};

use async_nats::header::HeaderName;
use async_nats::{HeaderMap, HeaderValue, Subject};
use asyncsteps_actors::clock;
use asyncsteps_actors::sync::{FencingToken, ParseFencingTokenError};
use asyncsteps_executor::message::Headers;
use tokio::time::Instant;

pub(super) const UID: HeaderName = HeaderName::from_static("Ftn-Uid");
pub(super) const DEADLINE: HeaderName = HeaderName::from_static("Ftn-Deadline-Ms");
pub(super) const ENDS: HeaderName = HeaderName::from_static("Ftn-Ends-Ms");
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

/// The time that a request has to be answered by, if its caller says how long it waits, and how long the request waited on
/// its way; as an instant, because another arbiter, whose times begin elsewhere, carries the request out.
///
/// # Errors
/// The text of the answer, if that is no number of milliseconds.
pub(super) fn deadline(
    headers: Option<&HeaderMap>,
    waited: impl FnOnce(i64) -> Duration,
) -> Result<Option<(Instant, Duration)>, &'static str> {
    let number = |name| headers?.get(name).map(|value| value.as_str().parse::<u64>());
    let Some(left) = number(DEADLINE) else { return Ok(None) };
    let left = left.map_err(|_| "Ftn-Deadline-Ms is no number of milliseconds")?;
    let ends = number(ENDS).transpose().map_err(|_| "Ftn-Ends-Ms is no number of milliseconds")?;
    let waited = ends.map_or(Duration::ZERO, |ends| {
        let way = i128::from(time_of_day()) - (i128::from(ends) - i128::from(left));
        waited(i64::try_from(way).unwrap_or_default())
    });
    let left = Duration::from_millis(left).saturating_sub(waited);
    Ok(Some((clock::instant(clock::now() + left), waited)))
}

/// How long a caller waits, and its time of day when it does not any more.
pub(super) fn set_deadline(headers: &mut HeaderMap, limit: Duration) {
    let left = millis(limit);
    headers.insert(DEADLINE, HeaderValue::from(left));
    headers.insert(ENDS, HeaderValue::from(time_of_day().saturating_add(left)));
}

/// The time of day in milliseconds since 1970.
fn time_of_day() -> u64 {
    millis(clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default())
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
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn name_of(name: &HeaderName) -> &str {
    name.as_ref()
}

/// Whether a name is not one of ours in other letters: those are not looked at, and not signed.
fn is_spelled(name: &HeaderName) -> bool {
    let ours = [UID, DEADLINE, ENDS, KEY, NODE, MAC, UNSIGNED, PROBE];
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
