//! The plan of a function as data, from its steps.

use std::time::Duration;

use super::data::{FunctionKind, Plan, PlanChild, PlanRetry, PlanStep, cut};
use super::form::Form;
use super::node::{Level, Node};
use super::work::AT_ONCE;
use crate::recorder::Kind;

/// The most letters of a type name: names of generic types can be kilobytes.
const TYPE: usize = 200;

impl Plan {
    /// The plan of a function whose steps are complete.
    pub(super) fn of(function: &str, level: &Level, answer_within: Option<Duration>) -> Self {
        Self {
            function: function.to_owned(),
            kind: FunctionKind::Plan,
            answer_within: answer_within.map(ms),
            steps: ways(level, "").concat(),
        }
    }
}

/// The steps of a level, below this path.
fn ways(level: &Level, around: &str) -> Vec<Vec<PlanStep>> {
    let mut ways = vec![Vec::new(); level.ways()];
    for (way, node) in level.nodes() {
        if let Some(way) = ways.get_mut(way) {
            add(node, around, way);
        }
    }
    ways
}

/// Adds a step, and those with which its level goes on behind it.
fn add(node: &Node, around: &str, way: &mut Vec<PlanStep>) {
    let (id, facts) = (&node.id, &node.facts);
    let path = match id.numbered() {
        ("", _) => String::new(),
        (name, 1) => format!("{around}{name}"),
        (name, nth) => format!("{around}{name}~{nth}"),
    };
    let inside = if path.is_empty() { around.to_owned() } else { format!("{path}/") };
    let (rest, inner) = match &node.inside {
        None => (Vec::new(), Vec::new()),
        Some(level) if level.is_rest() => (ways(level, around), Vec::new()),
        Some(level) => (Vec::new(), ways(level, &inside)),
    };
    if node.is_answered() {
        return way.extend(rest.into_iter().flatten());
    }
    way.push(PlanStep {
        path,
        name: id.name.to_owned(),
        form: facts.form,
        takes: cut(&short(facts.takes), TYPE),
        returns: cut(&short(facts.returns), TYPE),
        source: format!("{}:{}", id.source.file(), id.source.line()),
        locks: facts.locks,
        limiters: facts.limiters,
        timeout: facts.timeout.map(ms),
        retry: facts.retry.as_ref().map(|retry| PlanRetry {
            attempts: retry.most_attempts(),
            pause: ms(retry.first_pause()),
            within: retry.overall().map(ms),
        }),
        undo: facts.undo,
        recovers: facts.recovers,
        is_shielded: facts.is_shielded,
        commits: facts.commits,
        durable: facts.kind.map(|kind| word_of(kind).to_owned()),
        child: facts
            .child
            .map(|(function, policy)| PlanChild { function: function.to_owned(), policy }),
        is_signal: facts.senders.is_some(),
        at_once: (facts.form == Form::Each).then(|| facts.at_once.unwrap_or(AT_ONCE)),
        first: (facts.form == Form::Race).then(|| facts.first.unwrap_or(1)),
        at_least: facts.at_least,
        ways: inner,
    });
    way.extend(rest.into_iter().flatten());
}

/// The word with which a step says what a crash does to it.
fn word_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Recorded => "recorded",
        Kind::Once => "once",
        Kind::Repeatable => "repeatable",
        Kind::Transacted => "transacted",
        Kind::Wait => "waits",
        Kind::Retired => "retired",
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The name of a type without its modules.
fn short(name: &str) -> String {
    let mut short = String::new();
    let mut word = 0;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ':' && letters.peek() == Some(&':') && short.len() > word {
            letters.next();
            short.truncate(word);
            continue;
        }
        short.push(letter);
        if !letter.is_alphanumeric() && letter != '_' {
            word = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn types_are_shown_without_their_modules() {
        for (name, shown) in [
            ("()", "()"),
            ("alloc::vec::Vec<alloc::string::String>", "Vec<String>"),
            (
                "(i32, core::option::Option<&str>, [acme::shop::Item<'_>; 4])",
                "(i32, Option<&str>, [Item<'_>; 4])",
            ),
            ("alloc::boxed::Box<dyn core::ops::Fn(u8) -> a::b::C>", "Box<dyn Fn(u8) -> C>"),
            ("<a::b::C as d::e::F>::G", "<C as F>::G"),
        ] {
            assert_eq!(short(name), shown);
        }
    }
}
