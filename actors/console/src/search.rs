//! Which of the ended requests that were kept a page looks for: a snapshot has the newest ones only.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::observe::{RequestRecord, TraceParent};
use asyncsteps_observe::admin::RecentRequest;

use crate::bounds::{self, Bounded as _};

/// The filter of a page; all requests by default.
#[derive(Debug, Default)]
pub(crate) struct RecentFilter {
    number: Option<u64>,
    function: Option<String>,
    outcome: Option<SearchedOutcome>,
    /// In small letters.
    words: Vec<String>,
}

#[derive(Debug)]
enum SearchedOutcome {
    Success,
    Failure,
    Code(String),
}

impl RecentFilter {
    /// The filter of the query of a URL; unknown parameters are ignored.
    pub(crate) fn of_query(query: &str) -> Self {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                _ if value.is_empty() => {}
                // no request has the number 0
                "number" => filter.number = Some(value.parse().unwrap_or_default()),
                "function" => filter.function = Some(value.into_owned()),
                "outcome" => {
                    filter.outcome = Some(match &*value {
                        "succeeded" => SearchedOutcome::Success,
                        "failed" => SearchedOutcome::Failure,
                        code => SearchedOutcome::Code(code.to_owned()),
                    });
                }
                "text" => {
                    filter.words = value.split_whitespace().map(str::to_lowercase).collect();
                }
                _ => {}
            }
        }
        filter
    }

    /// The newest requests that it is for, as many as a page shows.
    pub(crate) fn find(&self, executor: &Executor) -> Vec<RecentRequest> {
        let kept = without_callers(executor.recent());
        let found = kept.iter().filter(|record| self.is_for(record)).take(bounds::RECENT);
        found.map(|record| RecentRequest::from(&**record).bounded()).collect()
    }

    fn is_for(&self, record: &RequestRecord) -> bool {
        self.number.is_none_or(|number| record.number == number)
            && self.function.as_deref().is_none_or(|name| record.function.as_str() == name)
            && self.outcome.as_ref().is_none_or(|outcome| outcome.is_of(&record.outcome))
            && self.has_words_of(record)
    }

    /// Whether each word is somewhere in the request.
    fn has_words_of(&self, record: &RequestRecord) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let RequestRecord { number, function, outcome, .. } = record;
        let (user, rid) = (record.user.as_deref(), record.rid.as_deref());
        let (user, rid) = (user.unwrap_or_default(), rid.unwrap_or_default());
        let trace = record.trace.trace_id();
        let known = format!("#{number} {function} {user} {rid} {trace} {outcome}").to_lowercase();
        let mut missing = self.words.iter().filter(|word| !known.contains(*word)).peekable();
        if missing.peek().is_none() {
            return true;
        }
        // the longest text, so it is written only where it matters
        let steps = record.steps.to_string().to_lowercase();
        missing.all(|word| steps.contains(word))
    }
}

/// The records without the calls that waited for durable requests which are among them: both are one request.
pub(crate) fn without_callers(mut kept: Vec<Arc<RequestRecord>>) -> Vec<Arc<RequestRecord>> {
    let below = |it: &Arc<RequestRecord>| Some((it.parent?, it.function.clone()));
    let called: HashMap<TraceParent, FunctionName> = kept.iter().filter_map(below).collect();
    kept.retain(|record| called.get(&record.trace) != Some(&record.function));
    kept
}

impl SearchedOutcome {
    fn is_of(&self, outcome: &str) -> bool {
        match self {
            Self::Success => outcome == "success",
            Self::Failure => outcome != "success",
            Self::Code(code) => outcome == code,
        }
    }
}
