//! The trace that a request belongs to (W3C Trace Context, `traceparent`).

use std::fmt;
use std::str::FromStr;

/// Where a request stands in a distributed trace: the header `traceparent` of W3C Trace Context.
///
/// ```
/// use asyncsteps_executor::observe::TraceParent;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = header.parse().expect("a trace");
/// assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), header);
/// assert!("00-0-0-01".parse::<TraceParent>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

/// A text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent: 00, trace, span and flags in lower-case hexadecimal digits")]
#[non_exhaustive]
pub struct NotATraceParent;

impl TraceParent {
    /// The name of the header.
    pub const HEADER: &'static str = "traceparent";

    /// The id of the trace, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The id of the caller's span, 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Whether the caller may have recorded the trace.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }

    /// The same trace below another span, for calls to other services. `span_id` is a random number that
    /// the caller logs as its own; 0 stands for no span, and becomes 1.
    #[must_use]
    pub fn below(self, span_id: u64) -> Self {
        Self { span_id: span_id.max(1), ..self }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    fn from_str(text: &str) -> Result<Self, NotATraceParent> {
        let mut parts = text.trim_matches([' ', '\t']).split('-');
        let mut part = |digits| parts.next().filter(|part| is_hex(part, digits));
        let (version, trace, span, flags) = (part(2), part(32), part(16), part(2));
        let (Some(version), Some(trace), Some(span), Some(flags)) = (version, trace, span, flags)
        else {
            return Err(NotATraceParent);
        };
        // later versions may have more behind it, version 00 may not, and ff is none
        let is_version = version != "ff" && (version != "00" || parts.next().is_none());
        let trace_id = u128::from_str_radix(trace, 16).unwrap_or(0);
        let span_id = u64::from_str_radix(span, 16).unwrap_or(0);
        let flags = u8::from_str_radix(flags, 16).unwrap_or(0);
        match is_version && trace_id != 0 && span_id != 0 {
            true => Ok(Self { trace_id, span_id, flags: flags & 1 }),
            false => Err(NotATraceParent),
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
    fn a_call_is_below_another_span_of_the_same_trace() {
        let parent: TraceParent = format!("00-{TRACE}-{SPAN}-01").parse().expect("a trace");
        assert_eq!(parent.below(7).to_string(), format!("00-{TRACE}-0000000000000007-01"));
        assert_eq!(parent.below(0).span_id(), "0000000000000001");
    }
}
