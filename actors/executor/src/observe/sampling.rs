//! Which requests are sampled.

use asyncsteps_actors::trace::TraceParent;

/// Which requests are sampled: their steps get spans, and what they did is exported. It is decided once,
/// when a request arrives, and holds for all that it calls in the process.
///
/// ```
/// use asyncsteps_executor::Executor;
/// use asyncsteps_executor::observe::Sampling;
///
/// // one in a hundred, and those that a caller has sampled
/// let executor = Executor::builder().sample(Sampling::share(0.01)).build()?;
/// # Ok::<(), asyncsteps_executor::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "options")]
pub struct Sampling {
    /// The share of all traces that is sampled, from 0 for none to 1 for all, which is the default: a
    /// service without a subscriber for steps and without an exporter pays nothing for it.
    pub share: f64,
    /// The meaning of the caller's decision to sample its trace or not.
    pub flag: CallerFlag,
}

/// The meaning of the flag "sampled" of a caller's `traceparent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else to do with a flag")]
pub enum CallerFlag {
    /// It decides, so that traces are whole or not there. The default.
    #[default]
    Decides,
    /// It is ignored, and the share decides: for services whose callers are not trusted.
    Ignored,
}

impl Sampling {
    /// This share of the traces that begin here, from 0 for none to 1 for all, and traces that callers have sampled.
    #[must_use]
    pub const fn share(share: f64) -> Self {
        Self { share, flag: CallerFlag::Decides }
    }

    /// The span of a request whose caller has named its own.
    pub(crate) fn span(self, caller: Option<TraceParent>) -> TraceParent {
        match (caller, self.flag) {
            (None, _) => TraceParent::root(self.share),
            (Some(caller), CallerFlag::Decides) => caller.child(),
            (Some(caller), CallerFlag::Ignored) => caller.child().sampled_by_share(self.share),
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::share(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_a_caller_decides_unless_it_is_ignored() {
        let ignoring = |share| Sampling { share, flag: CallerFlag::Ignored };
        for (sampling, flag, sampled) in [
            (Sampling::share(0.0), "01", true),
            (Sampling::share(1.0), "00", false),
            (ignoring(0.0), "01", false),
            (ignoring(1.0), "00", true),
        ] {
            let caller = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flag}");
            let caller: TraceParent = caller.parse().expect("a trace");
            let span = sampling.span(Some(caller));
            assert_eq!(span.is_sampled(), sampled, "{sampling:?} {flag}");
            assert_eq!(span.trace_id(), caller.trace_id());
            assert_ne!(span.span_id(), caller.span_id());
        }
        assert!(Sampling::default().span(None).is_sampled());
        assert!(!Sampling::share(0.0).span(None).is_sampled());
    }
}
