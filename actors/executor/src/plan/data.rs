//! A plan as data, for people and for tools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::form::{ChildPolicy, Form, UndoForm};

/// A function that an executor hosts, with the steps of its requests if it has a plan. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Plan {
    /// The full name of the function, `iface:version:function`.
    pub function: String,
    /// Whether it has a plan.
    pub kind: FunctionKind,
    /// How long its callers wait at the most, if the function [limits](super::Steps::answer_within) that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_within: Option<f64>,
    /// The steps, one after the other; none without a plan.
    pub steps: Vec<PlanStep>,
}

/// The implementation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FunctionKind {
    /// Steps that are known before a request comes.
    Plan,
    /// A template, whose steps are known when they run.
    Template,
    /// Nothing: callers get NotImplemented.
    NotImplemented,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanStep {
    /// The names of the steps around it and its own, with a slash between them; a further step of the same name has its
    /// number behind a `~`. Empty for steps that are not in paths: an early end, steps as one.
    pub path: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// The kind of step.
    pub form: Form,
    /// The type of its input, without modules, cut to 200 letters.
    pub takes: String,
    /// The type of its result, in the same way.
    pub returns: String,
    /// Where the application wrote it: `file:line`.
    pub source: String,
    /// How many locks it holds.
    #[schemars(with = "f64")]
    pub locks: usize,
    /// In how many limiters it has a place.
    #[schemars(with = "f64")]
    pub limiters: usize,
    /// The limit of its time, of each attempt if there are several; of a race, how long it waits for items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<PlanRetry>,
    /// How it is undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoForm>,
    /// Whether it has another result for some errors.
    pub recovers: bool,
    /// Whether nothing ends its body from outside.
    pub is_shielded: bool,
    /// Whether no cancel and no limit around it ends a durable request once it has begun.
    pub commits: bool,
    /// Its kind in a durable function, in the word of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// The durable request that it begins, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<PlanChild>,
    /// Whether it waits for a signal with its name.
    pub is_signal: bool,
    /// How many items it carries out at once, if it has items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub at_once: Option<usize>,
    /// How many items win, if it is a race.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub first: Option<usize>,
    /// How many items have to win, if that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub at_least: Option<usize>,
    /// The steps inside: branches of a join, ways of which one is taken, or else one list.
    #[schemars(with = "Vec<Vec<serde_json::Value>>")]
    pub ways: Vec<Vec<Self>>,
}

/// A durable request that a step begins.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanChild {
    /// The full name of its function.
    pub function: String,
    /// What becomes of it when the step is undone.
    pub policy: ChildPolicy,
}

/// When a step is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanRetry {
    /// How many attempts there are at the most, the first one included.
    #[schemars(with = "f64")]
    pub attempts: u32,
    /// The pause before the second one.
    pub pause: f64,
    /// The limit of the time of all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
}

impl Plan {
    /// A function without a plan.
    pub(crate) fn without(function: String, kind: FunctionKind) -> Self {
        Self { function, kind, answer_within: None, steps: Vec::new() }
    }

    /// How many steps of each kind it has, those inside of others included.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Form, usize> {
        let mut counts = BTreeMap::new();
        count(&self.steps, &mut counts);
        counts
    }

    /// Its first steps, at most `most`; the steps inside of a step come before the steps behind it.
    #[must_use]
    pub fn first(&self, most: usize) -> Self {
        let mut left = most;
        let Self { function, kind, answer_within, steps } = self;
        let steps = first(steps, &mut left);
        Self { function: function.clone(), kind: *kind, answer_within: *answer_within, steps }
    }
}

fn count(steps: &[PlanStep], counts: &mut BTreeMap<Form, usize>) {
    for step in steps {
        *counts.entry(step.form).or_default() += 1;
        step.ways.iter().for_each(|way| count(way, counts));
    }
}

fn first(steps: &[PlanStep], left: &mut usize) -> Vec<PlanStep> {
    let mut taken = Vec::new();
    for step in steps {
        if *left == 0 {
            break;
        }
        *left -= 1;
        let ways = step.ways.iter().map(|way| first(way, left)).collect();
        taken.push(PlanStep { ways, ..step.clone() });
    }
    taken
}

/// A text on one line in which no letter does anything but show: the others are escaped.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\'' | '\\' => shown.push(letter),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

/// The text, or as much of it as fits, with an ellipsis.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

impl PlanStep {
    /// Its part of paths: its name, with its number if there are several.
    pub(super) fn part(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Its options, in words.
    pub(super) fn policies(&self) -> Vec<String> {
        let several = |word: &str, count: usize| match count {
            0 => None,
            1 => Some(word.to_owned()),
            _ => Some(format!("{word} x{count}")),
        };
        let said = |is: bool, word: &str| is.then(|| word.to_owned());
        let retry = self.retry.as_ref().map(|retry| {
            let pause = if retry.pause > 0.0 {
                format!(" after {} ms", retry.pause)
            } else {
                String::new()
            };
            let within =
                retry.within.map_or_else(String::new, |within| format!(" within {within} ms"));
            format!("retry {}{pause}{within}", retry.attempts)
        });
        let undo = self.undo.map(|undo| match undo {
            UndoForm::OfResult => "undo".to_owned(),
            UndoForm::OfInputAndResult => "undo taking".to_owned(),
        });
        let child = self.child.as_ref().map(|PlanChild { function, policy }| match policy {
            ChildPolicy::Cancel => format!("begins {function}, cancelled with it"),
            ChildPolicy::Leave => format!("begins {function}"),
        });
        [
            child,
            self.at_once.map(|most| format!("{most} at once")),
            self.first.map(|count| format!("first {count}")),
            self.at_least.map(|count| format!("at least {count}")),
            self.durable.clone(),
            several("locked", self.locks),
            several("limited", self.limiters),
            self.timeout.map(|limit| format!("timeout {limit} ms")),
            retry,
            undo,
            said(self.recovers, "recovers"),
            said(self.is_shielded, "shielded"),
            said(self.commits, "commits"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
