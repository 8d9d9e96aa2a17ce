//! The trace that a flow belongs to (W3C Trace Context).

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use asyncsteps_core::sim::{Random, fill_seeded};

/// A span of a distributed trace, as the header `traceparent` of W3C Trace Context names it to those who
/// work for the span.
///
/// ```
/// use asyncsteps_actors::trace::TraceParent;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = header.parse().expect("a trace");
/// assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), header);
/// let child = parent.child();
/// assert_eq!(child.trace_id(), parent.trace_id());
/// assert_ne!(child.span_id(), parent.span_id());
/// assert!("00-0-0-01".parse::<TraceParent>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: NonZeroU128,
    span_id: NonZeroU64,
    flags: u8,
}

/// A text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent: 00, trace, span and flags in lower-case hexadecimal digits")]
#[non_exhaustive]
pub struct ParseTraceParentError;

impl TraceParent {
    /// The name of the header.
    pub const HEADER: &'static str = "traceparent";

    /// The first span of a new trace, with random ids. This share of all traces is sampled, from 0 for
    /// none to 1 for all; it depends on the id of the trace alone, so that services with the same share
    /// sample the same traces.
    #[must_use]
    pub fn root(share: f64) -> Self {
        let [high, low, span_id] = random();
        let trace_id = NonZeroU128::from(low) | NonZeroU128::from(high).get() << 64;
        Self { trace_id, span_id, flags: 0 }.sampled_by_share(share)
    }

    /// Another span of the same trace, with a random id.
    #[must_use]
    pub fn child(self) -> Self {
        let [span_id] = random();
        Self { span_id, ..self }
    }

    /// The same span; whether it is sampled is decided anew, as in [`root`](Self::root).
    #[must_use]
    pub fn sampled_by_share(self, share: f64) -> Self {
        // the last 56 bits of a trace are random, also in ids that others make
        const BITS: u32 = 56;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "the last bits of a share and of an id do not matter"
        )]
        let position =
            (self.trace_id.get() as u64 & ((1 << BITS) - 1)) as f64 / (1_u64 << BITS) as f64;
        Self { flags: u8::from(position < share), ..self }
    }

    /// The id of the trace, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(self) -> String {
        self.trace_digits().as_str().to_owned()
    }

    /// The id of the span, 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// The same as [`trace_id`](Self::trace_id) without memory of its own, for writing with each
    /// request.
    #[must_use]
    pub fn trace_digits(self) -> TraceDigits {
        TraceDigits::of(self.trace_id_bytes())
    }

    /// The id of the trace as bytes.
    #[must_use]
    pub fn trace_id_bytes(self) -> [u8; 16] {
        self.trace_id.get().to_be_bytes()
    }

    /// The id of the span as bytes.
    #[must_use]
    pub fn span_id_bytes(self) -> [u8; 8] {
        self.span_id.get().to_be_bytes()
    }

    /// Whether the trace is recorded: spans that are not sampled are not exported, nor are those below.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

/// The hexadecimal digits of the id of a trace; returned by [`TraceParent::trace_digits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceDigits([u8; 32]);

impl TraceDigits {
    fn of(id: [u8; 16]) -> Self {
        // without a table, so that all bytes are converted at once
        let digit = |four: u8| four + if four < 10 { b'0' } else { b'a' - 10 };
        let (high, low) = (id.map(|byte| digit(byte >> 4)), id.map(|byte| digit(byte & 15)));
        let mut digits = [0; 32];
        for (two, (high, low)) in digits.chunks_exact_mut(2).zip(high.into_iter().zip(low)) {
            two.copy_from_slice(&[high, low]);
        }
        Self(digits)
    }

    /// The digits as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // digits are text
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

thread_local! {
    /// The span of the flow whose turn it is.
    static CURRENT: Cell<Option<TraceParent>> = const { Cell::new(None) };

    /// Ids need to be unique, not secret.
    static RANDOM: RefCell<Random> = RefCell::new(Random::new(seed()));
}

/// Where the ids of this thread begin.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    if fill_seeded(&mut bytes) {
        return u64::from_le_bytes(bytes);
    }
    RandomState::new().build_hasher().finish()
}

/// The span of the flow whose turn it is, to be handed on to what the flow calls; `None` outside of
/// flows, and in flows that belong to no trace.
#[must_use]
pub fn current() -> Option<TraceParent> {
    CURRENT.get()
}

/// Restores the span of the enclosing flow when it is dropped.
pub(crate) struct TraceScope {
    before: Option<TraceParent>,
    /// There is no span, as before.
    is_same: bool,
}

/// Flows that start until the scope is dropped belong to this span.
#[inline]
pub(crate) fn enter(span: Option<TraceParent>) -> TraceScope {
    let is_same = span.is_none() && CURRENT.get().is_none();
    let before = if is_same { None } else { CURRENT.replace(span) };
    TraceScope { before, is_same }
}

impl Drop for TraceScope {
    #[inline]
    fn drop(&mut self) {
        if !self.is_same {
            CURRENT.set(self.before);
        }
    }
}

/// Random ids.
#[inline]
fn random<const IDS: usize>() -> [NonZeroU64; IDS] {
    RANDOM.with_borrow_mut(|random| {
        [(); IDS].map(|()| NonZeroU64::new(random.number()).unwrap_or(NonZeroU64::MIN))
    })
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = ParseTraceParentError;

    fn from_str(text: &str) -> Result<Self, ParseTraceParentError> {
        let mut parts = text.trim_matches([' ', '\t']).split('-');
        let mut part = |digits| parts.next().filter(|part| is_hex(part, digits));
        let (version, trace, span, flags) = (part(2), part(32), part(16), part(2));
        let (Some(version), Some(trace), Some(span), Some(flags)) = (version, trace, span, flags)
        else {
            return Err(ParseTraceParentError);
        };
        // later versions may have more behind it, version 00 may not, and ff is none
        let is_version = version != "ff" && (version != "00" || parts.next().is_none());
        let trace_id = u128::from_str_radix(trace, 16).ok().and_then(NonZeroU128::new);
        let span_id = u64::from_str_radix(span, 16).ok().and_then(NonZeroU64::new);
        let flags = u8::from_str_radix(flags, 16).unwrap_or(0);
        match (is_version, trace_id, span_id) {
            (true, Some(trace_id), Some(span_id)) => {
                Ok(Self { trace_id, span_id, flags: flags & 1 })
            }
            _ => Err(ParseTraceParentError),
        }
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn headers_are_read_as_the_specification_has_them() {
        for (right, told) in [
            (format!("00-{TRACE}-{SPAN}-01"), format!("00-{TRACE}-{SPAN}-01")),
            (format!(" 00-{TRACE}-{SPAN}-00\t"), format!("00-{TRACE}-{SPAN}-00")),
            // flags that are not known are not handed on, a later version is read as far as it is known
            (format!("00-{TRACE}-{SPAN}-ff"), format!("00-{TRACE}-{SPAN}-01")),
            (format!("cc-{TRACE}-{SPAN}-01-later"), format!("00-{TRACE}-{SPAN}-01")),
        ] {
            assert_eq!(right.parse::<TraceParent>().expect(&right).to_string(), told);
        }
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
        ] {
            wrong.parse::<TraceParent>().expect_err(&wrong);
        }
    }

    #[test]
    fn a_child_is_another_span_of_the_same_trace() {
        let parent: TraceParent = format!("00-{TRACE}-{SPAN}-01").parse().expect("a trace");
        let (one, other) = (parent.child(), parent.child());
        assert_eq!(one.trace_id(), TRACE);
        assert_eq!(one.trace_digits().as_str(), TRACE);
        assert!(one.is_sampled());
        assert_ne!(one.span_id(), other.span_id());
        assert_ne!(one.span_id(), SPAN);
    }

    #[test]
    fn a_share_of_all_traces_is_sampled_whoever_decides() {
        let sampled = |share| (0..2000).filter(|_| TraceParent::root(share).is_sampled()).count();
        assert_eq!(sampled(0.0), 0);
        assert_eq!(sampled(1.0), 2000);
        let half = sampled(0.5);
        // eleven standard deviations
        assert!((750..1250).contains(&half), "{half} of 2000");
        let root = TraceParent::root(0.5);
        assert_eq!(root.child().sampled_by_share(0.5).is_sampled(), root.is_sampled());
    }
}
