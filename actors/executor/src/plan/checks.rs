//! The rules for plans of durable functions: each step says what a crash does to it, and each choice depends only on
//! data that a request still has after one.

use std::mem;

use super::form::Form;
use super::mistake::Mistake;
use super::node::{Level, Node};
use crate::recorder::Kind;

/// The repeatable step that a value is of: after a crash it may be another one.
type Unrecorded = Option<&'static str>;

impl Level {
    /// Collects what a host cannot record.
    pub(super) fn check_recorded(&self, mistakes: &mut Vec<Mistake>) {
        self.check_words(true, mistakes);
        self.check_choices(None, mistakes);
    }

    /// Collects the answers that are not the only one of the function; `may_answer` if one may be here.
    pub(super) fn check_answers(&self, may_answer: &mut bool, mistakes: &mut Vec<Mistake>) {
        for (_, node) in self.nodes() {
            if node.facts.answers && !mem::take(may_answer) {
                let what = "`answers` is said once, for the steps of the function itself and not for a part of it";
                mistakes.push(Mistake { source: node.id.source, what: what.to_owned() });
            }
            match &node.inside {
                Some(inside) if inside.is_own() => inside.check_answers(&mut false, mistakes),
                Some(inside) => inside.check_answers(may_answer, mistakes),
                None => {}
            }
        }
    }

    /// Collects the steps that do not say what a crash does to them, or could not be undone after one. It is known
    /// after a crash what the first of them took, or not.
    fn check_words(&self, knows_first: bool, mistakes: &mut Vec<Mistake>) {
        for (place, node) in self.placed() {
            let (name, source) = (node.id.name, node.id.source);
            let knows_input = || self.knows_taken(place, knows_first);
            let lacks =
                |word| Some(format!("`{name}` does not say what a crash does to it: {word}"));
            let what = match (node.facts.form, node.facts.kind) {
                (Form::Body, None) => lacks("`recorded()`, `once()` or `repeatable()`"),
                (Form::Repeat, None) => {
                    lacks("`recorded_with_input()`, because its state is recorded")
                }
                (Form::Dynamic, _) if node.facts.define.is_none() => Some(format!(
                    "`{name}` is dynamic, and not directly behind a body whose result is recorded, and that does not \
                     recover"
                )),
                (Form::Asi, _) => Some(format!(
                    "a durable function cannot have `{name}`, {}",
                    node.facts.form.words()
                )),
                _ if node.facts.needs_input && node.has_undo() && !knows_input() => Some(format!(
                    "`{name}` is undone with what it took, which is not recorded: say `recorded_with_input()`, or \
                     have the step before it recorded"
                )),
                _ => None,
            };
            mistakes.extend(what.map(|what| Mistake { source, what }));
            if let Some(inside) = &node.inside {
                inside.check_words(node.facts.form.passes_inside() && knows_input(), mistakes);
            }
        }
    }

    /// Collects the choices that take the value of a repeatable step. Returns what the steps return, which take
    /// `value`.
    fn check_choices(&self, value: Unrecorded, mistakes: &mut Vec<Mistake>) -> Unrecorded {
        let mut way = |nodes: &[Node]| {
            nodes.iter().fold(value, |value, node| node.check_choices(value, mistakes))
        };
        self.each_way().fold(None, |returned, nodes| way(nodes).or(returned))
    }
}

impl Node {
    fn check_choices(&self, value: Unrecorded, mistakes: &mut Vec<Mistake>) -> Unrecorded {
        let (facts, name) = (&self.facts, self.id.name);
        let ends = facts.form == Form::OrEnd;
        let chooses = if ends {
            Some("the early end".to_owned())
        } else {
            let choices = [Form::When, Form::Either, Form::Each, Form::Race];
            choices.contains(&facts.form).then(|| format!("`{name}`"))
        };
        if let Some((step, choice)) = value.zip(chooses.as_ref()) {
            let what = format!(
                "{choice} takes the value of `{step}`, which is repeatable, and would choose anew after a crash: \
                 `{step}` says `recorded()`"
            );
            mistakes.push(Mistake { source: self.id.source, what });
        }
        let value = value.filter(|_| chooses.is_none());
        let returned = match &self.inside {
            Some(inside) => inside.check_choices(value, mistakes),
            None if facts.passes => value,
            None => (facts.kind == Some(Kind::Repeatable)).then_some(name),
        };
        if facts.form == Form::Repeat {
            // its result is recorded
            return None;
        }
        returned.filter(|_| ends || !facts.returns_unit)
    }
}
