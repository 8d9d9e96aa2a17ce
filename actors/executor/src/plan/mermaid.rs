//! A plan as a drawing: a flowchart in the language of Mermaid.

use std::fmt::Write as _;

use super::data::{FunctionKind, Plan, PlanStep, shown};
use super::form::Form;

impl Plan {
    /// The plan as a flowchart of [Mermaid](https://mermaid.js.org): branches are drawn side by side, a way is chosen
    /// at a diamond, steps inside of a step are in a frame, and the last one of a loop goes back to its first one.
    ///
    /// Names are texts in it, whatever they are.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let mut drawing = Drawing::default();
        let what = match self.kind {
            FunctionKind::Plan => None,
            FunctionKind::Template => Some("a template, which has no plan"),
            FunctionKind::NotImplemented => Some("not implemented"),
        };
        let limit = self.answer_within.map(|limit| format!("answers within {limit} ms"));
        let begin = drawing.node(("([", "])"), &self.function, what.or(limit.as_deref()));
        if self.kind == FunctionKind::Plan {
            let exits = drawing.chain(&self.steps, vec![Exit { from: begin, word: "" }]);
            let end = drawing.node(("([", "])"), "returns", None);
            drawing.connect(exits, end);
        }
        drawing.finish()
    }
}

/// A flowchart while it is drawn.
#[derive(Default)]
struct Drawing {
    lines: String,
    /// They follow all nodes: one that names a node inside of a frame would put the node there.
    edges: Vec<Edge>,
    /// How many nodes and frames there are.
    count: usize,
    depth: usize,
}

struct Edge {
    from: usize,
    to: usize,
    word: &'static str,
    is_back: bool,
}

/// A way out of some steps: from a node, with a word at the arrow.
#[derive(Clone, Copy)]
struct Exit {
    from: usize,
    word: &'static str,
}

/// The words at the arrows of branches and ways.
const WAYS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

impl Drawing {
    fn finish(self) -> String {
        let mut text = format!("flowchart TD\n{}", self.lines);
        for Edge { from, to, word, is_back } in self.edges {
            let arrow = if is_back { "-.->" } else { "-->" };
            let word = if word.is_empty() { String::new() } else { format!("|{word}|") };
            let _ = writeln!(text, "    n{from} {arrow}{word} n{to}");
        }
        text
    }

    /// Draws steps that follow each other; returns the ways out of them.
    fn chain(&mut self, steps: &[PlanStep], mut open: Vec<Exit>) -> Vec<Exit> {
        let mut ended = Vec::new();
        for step in steps {
            open = self.step(step, open);
            if step.form == Form::OrEnd {
                ended.extend(open.iter().map(|exit| Exit { word: "ends", ..*exit }));
            }
        }
        open.extend(ended);
        open
    }

    /// Draws a step behind these ways; returns the ways out of it.
    fn step(&mut self, step: &PlanStep, before: Vec<Exit>) -> Vec<Exit> {
        let said = step.policies().join(", ");
        let said = Some(said.as_str()).filter(|said| !said.is_empty());
        let shape = match step.form {
            Form::Body => ("[", "]"),
            Form::Dynamic | Form::Asi => ("[[", "]]"),
            Form::Pass => ("(", ")"),
            Form::Join => ("{{", "}}"),
            Form::When | Form::Either | Form::OrEnd => ("{", "}"),
            Form::Group | Form::Scope | Form::Each | Form::Race | Form::Repeat => {
                return self.frame(step, said, before);
            }
        };
        let name = if step.name.is_empty() { step.form.word() } else { step.part() };
        let node = self.node(shape, name, said);
        self.connect(before, node);
        let mut exits = Vec::new();
        if step.ways.is_empty() {
            exits.push(Exit { from: node, word: "" });
        }
        for (number, way) in step.ways.iter().enumerate() {
            let word = match step.form == Form::When {
                true => "some",
                false => WAYS.get(number).copied().unwrap_or_default(),
            };
            exits.extend(self.chain(way, vec![Exit { from: node, word }]));
        }
        if step.form == Form::When {
            exits.push(Exit { from: node, word: "none" });
        }
        exits
    }

    /// Draws a step as a frame around those inside.
    fn frame(&mut self, step: &PlanStep, said: Option<&str>, before: Vec<Exit>) -> Vec<Exit> {
        let kind = match (step.form, step.name.is_empty()) {
            (Form::Group, true) => "as one",
            (form, _) => form.word(),
        };
        let title: Vec<_> = [Some(kind), said].into_iter().flatten().collect();
        let label = label(step.part(), Some(&title.join(", ")));
        let frame = self.next();
        self.line(&format!("subgraph n{frame} [\"{label}\"]"));
        self.depth += 1;
        let first = self.edges.len();
        let mut exits = self.chain(&step.ways.concat(), before.clone());
        if first == self.edges.len() {
            let nothing = self.node(("(", ")"), "pass", None);
            self.connect(before, nothing);
            exits = vec![Exit { from: nothing, word: "" }];
        }
        self.depth -= 1;
        self.line("end");
        let entry = self.edges.get(first).map(|edge| edge.to);
        if let Some(to) = entry.filter(|_| step.form == Form::Repeat) {
            let back = |exit: &Exit| Edge { from: exit.from, to, word: "again", is_back: true };
            let back: Vec<_> = exits.iter().map(back).collect();
            self.edges.extend(back);
        }
        exits
    }

    fn node(&mut self, (open, close): (&str, &str), name: &str, said: Option<&str>) -> usize {
        let node = self.next();
        self.line(&format!("n{node}{open}\"{}\"{close}", label(name, said)));
        node
    }

    fn connect(&mut self, exits: Vec<Exit>, to: usize) {
        let edge = |Exit { from, word }| Edge { from, to, word, is_back: false };
        self.edges.extend(exits.into_iter().map(edge));
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.lines, "{:1$}{text}", "", 4 * (self.depth + 1));
    }
}

/// A name, and the line below it.
fn label(name: &str, said: Option<&str>) -> String {
    let lines = [Some(name), said].into_iter().flatten().filter(|line| !line.is_empty());
    lines.map(|line| escaped(&shown(line))).collect::<Vec<_>>().join("<br/>")
}

/// A text as a label shows it: characters that Mermaid, Markdown or HTML may interpret are written by their numbers.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // `1. ` and `- ` begin a list
        let is_list = matches!(letter, '.' | '-') && letters.peek().is_none_or(|next| *next == ' ');
        if letter.is_alphanumeric() || " .,:-".contains(letter) && !is_list {
            escaped.push(letter);
        } else {
            let _ = write!(escaped, "#{};", u32::from(letter));
        }
    }
    escaped
}
