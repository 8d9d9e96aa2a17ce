//! A plan as a text: a tree with a step on each line.

use super::data::{FunctionKind, Plan, PlanStep, cut, shown};
use super::form::Form;

/// The columns of a line.
const WIDTH: usize = 100;

/// The most columns of a name.
const NAME: usize = 40;

/// The columns of the tree in front of names; steps that are deeper inside are drawn below each other.
const TREE: usize = 42;

/// The least columns in which types say something.
const TYPES: usize = 12;

impl Plan {
    /// The plan as a tree: a line for the function, then one for each step with its kind, its types, its options, and
    /// where it is written. A line has at most 100 columns. Branches and ways have their number in front of the name.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut lines = vec![self.head()];
        let steps: Vec<_> = self.steps.iter().map(|step| (None, step)).collect();
        add(&steps, "", &mut lines);
        lines.join("\n")
    }

    fn head(&self) -> String {
        let function = shown(&self.function);
        let what = match self.kind {
            FunctionKind::Plan => match self.counts().values().sum() {
                1 => "1 step".to_owned(),
                count => format!("{count} steps"),
            },
            FunctionKind::Template => "a template, which has no plan".to_owned(),
            FunctionKind::NotImplemented => "not implemented".to_owned(),
        };
        let limit = self.answer_within.map(|limit| format!(", answers within {limit} ms"));
        cut(&format!("{function}: {what}{}", limit.unwrap_or_default()), WIDTH)
    }
}

/// Adds steps of one level, with the steps inside of them.
fn add(steps: &[(Option<usize>, &PlanStep)], before: &str, lines: &mut Vec<String>) {
    for (at, (way, step)) in steps.iter().enumerate() {
        let (turn, below) = if at + 1 == steps.len() {
            ("\u{2514}\u{2500} ", "   ")
        } else {
            ("\u{251c}\u{2500} ", "\u{2502}  ")
        };
        let way = way.map(|way| format!("{way} ")).unwrap_or_default();
        lines.push(line(&format!("{before}{turn}{way}"), step));
        let is_several = step.ways.len() > 1;
        let inside = step.ways.iter().zip(1..).flat_map(|(steps, way)| {
            steps.iter().map(move |step| (is_several.then_some(way), step))
        });
        let is_deep = before.chars().count() + 3 > TREE;
        let inner = if is_deep { before.to_owned() } else { format!("{before}{below}") };
        add(&inside.collect::<Vec<_>>(), &inner, lines);
    }
}

fn line(before: &str, step: &PlanStep) -> String {
    let name = cut(&shown(step.part()), NAME);
    let kind = match (step.form, step.name.is_empty()) {
        (Form::Body, false) => "",
        (Form::Group, true) => "as one",
        (form, _) => form.word(),
    };
    let head: Vec<_> = [name.as_str(), kind].into_iter().filter(|it| !it.is_empty()).collect();
    let said = step.policies();
    let said = if said.is_empty() { String::new() } else { format!("  [{}]", said.join(", ")) };
    let file = step.source.rsplit(['/', '\\']).next().unwrap_or_default();
    let (head, tail) =
        (format!("{before}{}", head.join("  ")), format!("{}  {}", shown(&said), shown(file)));
    let types = shown(&format!("{} -> {}", step.takes, step.returns));
    let left = WIDTH.saturating_sub(head.chars().count() + tail.chars().count() + 2);
    let fits = types.chars().count() <= left || left >= TYPES;
    let types = if !fits { String::new() } else { format!("  {}", cut(&types, left)) };
    cut(&format!("{head}{types}{tail}"), WIDTH)
}

impl Form {
    /// The word for such a step.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Body => "run",
            Self::Group => "nested",
            Self::Scope => "scope",
            Self::Join => "join",
            Self::Each => "each",
            Self::Race => "race",
            Self::Repeat => "repeat",
            Self::When => "when",
            Self::Either => "either",
            Self::OrEnd => "or end",
            Self::Dynamic => "dynamic",
            Self::Asi => "asi",
            Self::Pass => "pass",
        }
    }
}
