//! What a trace carries beside its ids: `tracestate` (W3C Trace Context §3.3) and `baggage` (W3C Baggage).
//!
//! A request that came with it [holds](hold) it for its span until it ends; calls that are made for the span meanwhile pass
//! it on. Few traces carry anything, so it is looked up by the span, and flows do not have it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use dashmap::DashMap;

use crate::trace::TraceParent;

/// The names of the fields, in the order in which [`Carried`] has them.
const FIELDS: [&str; 2] = ["tracestate", "baggage"];

/// Bytes of `tracestate`, which all have to pass on.
const STATE_BYTES: usize = 512;

/// Entries of `tracestate`.
const STATE_ENTRIES: usize = 32;

/// Bytes of an entry; longer ones are the first to go.
const SHORT_ENTRY: usize = 128;

/// Bytes of `baggage`, which all have to pass on.
const BAGGAGE_BYTES: usize = 8192;

/// Members of `baggage`.
const BAGGAGE_MEMBERS: usize = 64;

/// What a trace carries: the values of the headers, well formed and bounded.
///
/// ```
/// use asyncsteps_actors::carried::Carried;
///
/// let carried = Carried::new("vendor=a1, other=b2", "tenant=acme, no member").expect("there is some");
/// let fields: Vec<_> = carried.fields().collect();
/// assert_eq!(fields, [("tracestate", "vendor=a1,other=b2"), ("baggage", "tenant=acme")]);
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Carried([Box<str>; 2]);

impl Carried {
    /// What is passed on of the values of the headers `tracestate` and `baggage`, each empty or joined by commas; `None` if that
    /// is nothing. A `tracestate` that is not well formed is dropped whole, of `baggage` its wrong members are. What exceeds 512
    /// bytes or 32 entries, and 8,192 bytes or 64 members, is dropped.
    #[must_use]
    pub fn new(tracestate: &str, baggage: &str) -> Option<Arc<Self>> {
        // almost all requests
        if tracestate.is_empty() && baggage.is_empty() {
            return None;
        }
        let carried = [state_of(tracestate), baggage_of(baggage)];
        let is_empty = carried.iter().all(String::is_empty);
        (!is_empty).then(|| Arc::new(Self(carried.map(Into::into))))
    }

    /// The headers, with names in lower case.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = FIELDS.into_iter().zip(self.0.iter().map(|value| &**value));
        all.filter(|(_, value)| !value.is_empty())
    }
}

/// The spans of this process that carry something.
static SPANS: LazyLock<DashMap<TraceParent, Arc<Carried>>> = LazyLock::new(DashMap::new);

/// Their number, so that a look at none costs nothing.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Holds what a span carries until this is dropped.
#[derive(Debug)]
#[must_use = "the span carries nothing when it is dropped"]
pub struct Held(TraceParent);

/// Lets a span carry something, until the guard is dropped.
pub fn hold(span: TraceParent, carried: Arc<Carried>) -> Held {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    SPANS.insert(span, carried);
    Held(span)
}

impl Drop for Held {
    fn drop(&mut self) {
        SPANS.remove(&self.0);
        NUMBER.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a span of this process carries, to be passed on with its `traceparent`.
#[must_use]
pub fn of(span: TraceParent) -> Option<Arc<Carried>> {
    if NUMBER.load(Ordering::Relaxed) == 0 {
        return None;
    }
    SPANS.get(&span).map(|carried| Arc::clone(&carried))
}

/// A span with what it carries as one text, for records: its `traceparent`, and the other headers as lines.
#[must_use]
pub fn to_record(span: TraceParent) -> String {
    let mut text = span.to_string();
    for (name, value) in of(span).iter().flat_map(|carried| carried.fields()) {
        text.extend(["\n", name, ": ", value]);
    }
    text
}

/// The span in such a text, and what it carries.
#[must_use]
pub fn from_record(text: &str) -> (Option<TraceParent>, Option<Arc<Carried>>) {
    let (span, rest) = text.split_once('\n').unwrap_or((text, ""));
    let [state, baggage] = FIELDS.map(|name| {
        let mut values =
            rest.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.next().unwrap_or_default()
    });
    (span.parse().ok(), Carried::new(state, baggage))
}

fn members(text: &str) -> impl Iterator<Item = &str> {
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    members.filter(|member| !member.is_empty())
}

/// As many of the first members as fit.
fn joined<'a>(members: impl Iterator<Item = &'a str>, most: usize) -> String {
    let mut text = String::new();
    for member in members {
        let comma = if text.is_empty() { "" } else { "," };
        if text.len() + comma.len() + member.len() > most {
            break;
        }
        text.extend([comma, member]);
    }
    text
}

/// W3C Trace Context §3.3.1.
fn state_of(text: &str) -> String {
    let keys: Option<Vec<_>> = members(text).map(state_key).collect();
    let Some(mut keys) = keys.filter(|keys| keys.len() <= STATE_ENTRIES) else {
        return String::new();
    };
    let number = keys.len();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() < number {
        return String::new();
    }
    let has_room = text.len() <= STATE_BYTES;
    let entries = members(text).filter(|entry| has_room || entry.len() <= SHORT_ENTRY);
    joined(entries, STATE_BYTES)
}

/// The key of an entry, if it is well formed.
fn state_key(entry: &str) -> Option<&str> {
    let (key, value) = entry.split_once('=')?;
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_key = |byte| is_first(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte| matches!(byte, b' '..=b'~' if !matches!(byte, b',' | b'='));
    let is_right = key.len() <= 256
        && key.bytes().next().is_some_and(is_first)
        && key.bytes().all(is_key)
        && (1..=256).contains(&value.len())
        && value.bytes().all(is_value);
    is_right.then_some(key)
}

/// W3C Baggage §3.2.
fn baggage_of(text: &str) -> String {
    let right = members(text).filter(|member| {
        let mut parts = member.split(';');
        parts.next().is_some_and(|first| first.contains('=') && is_property(first))
            && parts.all(is_property)
    });
    joined(right.take(BAGGAGE_MEMBERS), BAGGAGE_BYTES)
}

/// Whether it is a key, or a key with a value.
fn is_property(part: &str) -> bool {
    let (key, value) = part.split_once('=').unwrap_or((part, ""));
    let key = key.trim_matches([' ', '\t']);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_octet =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
    !key.is_empty()
        && key.bytes().all(is_token)
        && value.trim_matches([' ', '\t']).bytes().all(is_octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(state: &str, baggage: &str) -> [String; 2] {
        let carried = Carried::new(state, baggage);
        FIELDS.map(|name| {
            let found = carried.iter().flat_map(|carried| carried.fields());
            found.filter(|(other, _)| *other == name).map(|(_, value)| value).collect()
        })
    }

    #[test]
    fn a_state_is_passed_on_whole_or_from_its_beginning() {
        let many = |number: usize| {
            let entries: Vec<_> = (0..number).map(|at| format!("k{at}=v")).collect();
            entries.join(",")
        };
        let long = "x".repeat(256);
        for (text, expected) in [
            ("", ""),
            ("a=1", "a=1"),
            (" a=1 ,\t,tenant@system=a b,0*/_-=!", "a=1,tenant@system=a b,0*/_-=!"),
            ("a=1,a=2", ""),
            ("a=1,A=2", ""),
            ("a=1,b", ""),
            ("a=1,b=", ""),
            ("a=1,b=c=d", ""),
            ("a=1,_b=2", ""),
            ("a=1,b=\u{e9}", ""),
            (&many(32), &many(32)),
            (&many(33), ""),
            (&format!("a={long}"), &format!("a={long}")),
            (&format!("a={long}x"), ""),
            // the long ones go first, then the last ones
            (&format!("a={long},b=1,c={long}"), "b=1"),
        ] {
            assert_eq!(parsed(text, "")[0], expected, "{text}");
        }
        let fives: Vec<_> = (10..20).map(|at| format!("{at}={}", "v".repeat(97))).collect();
        assert_eq!(parsed(&fives.join(","), "")[0], fives[..5].join(","));
    }

    #[test]
    fn baggage_loses_its_wrong_members_and_what_is_too_much() {
        let many = |number: usize| {
            let members: Vec<_> = (0..number).map(|at| format!("k{at}=v")).collect();
            members.join(",")
        };
        for (text, expected) in [
            ("a=1", "a=1"),
            ("a=,b=x=y,c = 1;p;q=2", "a=,b=x=y,c = 1;p;q=2"),
            ("a=1,b,c=\"q\",d=\u{e9},=e,f g=1,h=1;=p, i=1", "a=1,i=1"),
            ("a=\r\n", ""),
            (&many(65), &many(64)),
        ] {
            assert_eq!(parsed("", text)[1], expected, "{text}");
        }
        let thousand = |key| format!("{key}={}", "v".repeat(998));
        let members: Vec<_> = ('a'..'k').map(thousand).collect();
        assert_eq!(parsed("", &members.join(","))[1], members[..8].join(","));
        assert_eq!(parsed("", &thousand('a').repeat(10)), ["", ""].map(str::to_owned));
    }

    #[test]
    fn a_span_carries_until_its_guard_is_dropped_and_in_records() {
        let span = TraceParent::root(1.0);
        assert_eq!((of(span), to_record(span)), (None, span.to_string()));
        let carried = Carried::new("a=1", "b=2").expect("there is some");
        let held = hold(span, Arc::clone(&carried));
        assert_eq!(of(span), Some(Arc::clone(&carried)));
        assert_eq!(of(span.child()), None);
        let record = to_record(span);
        assert_eq!(record, format!("{span}\ntracestate: a=1\nbaggage: b=2"));
        drop(held);
        assert_eq!(of(span), None);
        assert_eq!(from_record(&record), (Some(span), Some(carried)));
        assert_eq!(from_record(&span.to_string()), (Some(span), None));
        assert_eq!(from_record("\nbaggage: \u{0}"), (None, None));
    }
}
