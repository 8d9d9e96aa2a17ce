//! The model: FTN12 as a recursive interpreter, written to be read.
//!
//! A step is a call that returns its result or why it ended otherwise; time is a variable. The
//! branches of a parallel step run one after the other, each with the same time to start from: a
//! first try finds out which of them fails first, if one does, and the second one stops the
//! others at that time.

use super::program::{
    self, Body, Decision, End, Handler, Id, Kind, Late, Leave, Loop, Node, Outside, Program, Step,
    Story, Wait, counter,
};
use super::strand::{Abort, Alone, Fault, Frame, Ran, Strand, Values};

/// What the program does.
pub(crate) fn run(program: &Program) -> Story {
    let mut model = Model::default();
    let ran = model.steps(&mut Strand::new(program.cancelled_at()), &program.steps, Values::new());
    let Model { now, mut story, stopped, .. } = model;
    story.events.extend(stopped);
    story.ended_at = now;
    story.ending = match ran {
        Ok(values) => format!("success {values:?}"),
        Err(Abort::Error(Fault { code, info })) => program::shown(&code, info.as_deref()),
        Err(Abort::Stopped) => "cancelled".to_owned(),
        Err(Abort::Leave(_)) => unreachable!("there is no loop around the flow"),
    };
    story.sorted()
}

#[derive(Clone, Default)]
struct Model {
    now: u64,
    story: Story,
    /// Whether a cancel is under way: what it does is told after what caused it.
    stopping: bool,
    stopped: Vec<(u64, String)>,
}

impl Model {
    fn steps(&mut self, strand: &mut Strand, nodes: &[Node], mut values: Values) -> Ran {
        for node in nodes {
            values = self.node(strand, node, values)?;
        }
        Ok(values)
    }

    fn node(&mut self, strand: &mut Strand, node: &Node, values: Values) -> Ran {
        match node {
            Node::Step(step) => self.step(strand, step, values),
            Node::Sync(step) => self.step_with(strand, step, values, true),
            Node::Loop(looped) => self.a_loop(strand, looped),
            Node::Result(result) => Ok(result.clone()),
            Node::Parallel { branches, handler } => {
                self.frame(strand, handler, |model, strand| model.parallel(strand, branches))
            }
            Node::Await { wait, handler } => {
                self.frame(strand, handler, |model, strand| model.awaited(strand, wait))
            }
            Node::Shielded { wait, handler } => {
                self.frame(strand, handler, |model, strand| model.shielded(strand, wait))
            }
        }
    }

    fn step(&mut self, strand: &mut Strand, step: &Step, values: Values) -> Ran {
        self.step_with(strand, step, values, false)
    }

    fn step_with(
        &mut self,
        strand: &mut Strand,
        step: &Step,
        values: Values,
        has_lock: bool,
    ) -> Ran {
        self.frame_with(strand, &step.handler, has_lock, |model, strand| {
            if values.len() < step.takes.least() {
                return Err(Fault::internal());
            }
            model.log(format!(">{} {}", step.id, step.takes.shown(&values)));
            model.body(strand, step.id, &step.body)
        })
    }

    /// Runs a step in its frame; if it ends abnormally, its cancel handler, then its error handler.
    fn frame(
        &mut self,
        strand: &mut Strand,
        handler: &Option<Handler>,
        run: impl FnOnce(&mut Self, &mut Strand) -> Ran,
    ) -> Ran {
        self.frame_with(strand, handler, false, run)
    }

    fn frame_with(
        &mut self,
        strand: &mut Strand,
        handler: &Option<Handler>,
        has_lock: bool,
        run: impl FnOnce(&mut Self, &mut Strand) -> Ran,
    ) -> Ran {
        strand.frames.push(Frame::default());
        let mut ran = run(self, strand);
        strand.top().limit = None;
        if let Err(abort) = ran {
            if let Some(id) = strand.top().cancel {
                self.log(format!("x{id}"));
            }
            ran = match (abort, handler) {
                (Abort::Error(fault), Some(handler)) => self.handle(strand, handler, fault),
                (abort, _) => Err(abort),
            };
        }
        if let Some(id) = strand.top().value {
            self.log(format!("-{id}"));
        }
        strand.leave_bodies(has_lock);
        strand.frames.pop();
        let values = ran?;
        self.go_on(strand)?;
        Ok(values)
    }

    /// The next step waits for the shielded bodies that keep a lock.
    fn go_on(&mut self, strand: &mut Strand) -> Result<(), Abort> {
        match strand.kept_until().filter(|end| *end > self.now) {
            Some(end) => self.wait(strand, Some(end)).map(drop),
            None => Ok(()),
        }
    }

    fn handle(&mut self, strand: &mut Strand, handler: &Handler, fault: Fault) -> Ran {
        let shown = program::shown(&fault.code, fault.info.as_deref());
        self.log(format!("!{} {shown}", handler.id));
        match &handler.end {
            Decision::Silent => Err(Abort::Error(fault)),
            Decision::Success(values) => strand.success(values),
            Decision::Error(info) => Err(Fault::raised(handler.id, *info)),
            Decision::Steps(nodes) => {
                self.go_on(strand)?;
                self.steps(strand, nodes, Values::new())
            }
            Decision::Leave(leave) => Err(strand.leave(*leave)),
            Decision::Panic | Decision::Wait | Decision::StepsAndSuccess => Err(Fault::internal()),
        }
    }

    fn body(&mut self, strand: &mut Strand, id: Id, body: &Body) -> Ran {
        let now = self.now;
        *strand.top() = Frame {
            limit: body.limit.map(|limit| limit.end(now)),
            cancel: body.cancel.then_some(id),
            value: body.value.then_some(id),
        };
        if body.count {
            self.story.counts[counter(id)] += 1;
        }
        match &body.end {
            // a time limit and a cancel handler mean that something outside is waited for
            End::Return if body.limit.is_some() || body.cancel => self.wait(strand, None),
            End::Return => Ok(Values::new()),
            End::Success(values) => strand.success(values),
            End::Error(info) => Err(Fault::raised(id, *info)),
            End::Leave(leave) => Err(strand.leave(*leave)),
            End::Wait(wait) => self.completed(strand, wait),
            End::Until(pause) => self.wait(strand, Some(pause.end(now))),
            End::Steps(nodes) | End::StepsAnd(nodes, Late::Add) => {
                self.steps(strand, nodes, Values::new())
            }
            End::Panic | End::SuccessAnd(_) => Err(Fault::internal()),
            End::StepsAnd(_, Late::Success | Late::Error | Late::Leave(_)) => {
                Err(Fault::internal())
            }
        }
    }

    /// Waits until a time, or for ever, unless a limit or a cancel comes first.
    fn wait(&mut self, strand: &mut Strand, until: Option<u64>) -> Ran {
        let until = until.unwrap_or(u64::MAX);
        let limit = strand.next_limit();
        let first = until.min(strand.stop).min(limit.map_or(u64::MAX, |(at, _)| at));
        self.now = first;
        if first == until {
            return Ok(Values::new());
        }
        if let Some((at, whose)) = limit
            && first == at
        {
            strand.frames[whose].limit = None;
            return Err(Fault::timeout());
        }
        self.stopping = true;
        Err(Abort::Stopped)
    }

    fn completed(&mut self, strand: &mut Strand, wait: &Wait) -> Ran {
        self.wait(strand, Some(wait.pause.end(self.now)))?;
        match &wait.result {
            Outside::Success(values) => strand.success(values),
            Outside::Error(info) => Err(Fault::raised(wait.pause.id, *info)),
            Outside::Abandoned => Err(Fault::internal()),
        }
    }

    /// A future; an abandoned one is never ready.
    fn awaited(&mut self, strand: &mut Strand, wait: &Wait) -> Ran {
        let end = wait.pause.end(self.now);
        let ready = (!matches!(wait.result, Outside::Abandoned)).then_some(end);
        let waited = self.wait(strand, ready);
        if waited.is_err() {
            self.log(format!("~{}", wait.pause.id));
        }
        waited?;
        match &wait.result {
            Outside::Success(values) => Ok(values.clone()),
            Outside::Error(info) => Err(Fault::raised(wait.pause.id, *info)),
            Outside::Abandoned => unreachable!("it is never ready"),
        }
    }

    /// A future that goes on when its step is ended from outside.
    fn shielded(&mut self, strand: &mut Strand, wait: &Wait) -> Ran {
        let end = wait.pause.end(self.now);
        let waited = self.wait(strand, Some(end));
        self.story.events.push((end, format!("+{}", wait.pause.id)));
        if waited.is_err() {
            strand.bodies.push(Alone { depth: strand.frames.len(), end, keeps: false });
        }
        waited?;
        match &wait.result {
            Outside::Success(values) => Ok(values.clone()),
            Outside::Error(info) => Err(Fault::raised(wait.pause.id, *info)),
            Outside::Abandoned => unreachable!("a body has an end"),
        }
    }

    fn a_loop(&mut self, strand: &mut Strand, looped: &Loop) -> Ran {
        strand.loops.push(looped.label);
        let ran = self.iterations(strand, looped);
        strand.loops.pop();
        ran
    }

    fn iterations(&mut self, strand: &mut Strand, looped: &Loop) -> Ran {
        for i in 0..looped.count {
            let ran = self.frame(strand, &None, |model, strand| {
                model.log(format!("@{} {i}", looped.id));
                model.body(strand, looped.id, &looped.body)
            });
            match ran {
                Err(Abort::Leave(Leave { again, label }))
                    if label.is_none() || label == looped.label =>
                {
                    self.go_on(strand)?;
                    if !again {
                        return Ok(Values::new());
                    }
                }
                ran => drop(ran?),
            }
        }
        if matches!(looped.kind, Kind::Endless) {
            self.log(format!("@{} {}", looped.id, looped.count));
        }
        Ok(Values::new())
    }

    fn parallel(&mut self, strand: &mut Strand, branches: &[Step]) -> Ran {
        let start = self.now;
        let limit = strand.next_limit().filter(|(at, _)| *at < strand.stop);
        let stop = limit.map_or(strand.stop, |(at, _)| at);
        let mut trial = self.clone();
        let ends: Vec<(Ran, u64)> = branches
            .iter()
            .map(|branch| trial.branch(&mut strand.branch(stop), branch, start))
            .collect();
        let failed = |(ran, _): &(Ran, u64)| matches!(ran, Err(Abort::Error(_) | Abort::Leave(_)));
        let first = (0..ends.len()).filter(|at| failed(&ends[*at])).min_by_key(|at| ends[*at].1);
        let others = first.map_or(stop, |at| ends[at].1);

        let outside = std::mem::take(&mut self.stopped);
        for (at, branch) in branches.iter().enumerate() {
            let stop = if Some(at) == first { stop } else { others };
            // how it ends is known from the trial
            let mut inside = strand.branch(stop);
            let _ = self.branch(&mut inside, branch, start);
            strand.take_bodies(inside);
            self.stopping = false;
        }
        let cancelled = std::mem::replace(&mut self.stopped, outside);
        let all_over = ends.iter().all(|(ran, _)| ran.is_ok());
        if first.is_none() && !all_over && limit.is_none() {
            self.stopping = true;
            self.stopped.extend(cancelled);
            self.now = stop;
            return Err(Abort::Stopped);
        }
        self.story.events.extend(cancelled);
        match (first, limit) {
            (Some(at), _) => {
                self.now = ends[at].1;
                ends[at].0.clone()
            }
            (None, Some((at, whose))) if !all_over => {
                self.now = at;
                strand.frames[whose].limit = None;
                Err(Fault::timeout())
            }
            (None, _) => {
                self.now = ends.iter().map(|(_, end)| *end).max().unwrap_or(start);
                Ok(Values::new())
            }
        }
    }

    /// Runs a branch from the start of its parallel step; gives how it ended, and when.
    fn branch(&mut self, strand: &mut Strand, step: &Step, start: u64) -> (Ran, u64) {
        self.now = start;
        let ran = self.step(strand, step, Values::new());
        (ran, self.now)
    }

    fn log(&mut self, event: String) {
        let events = if self.stopping { &mut self.stopped } else { &mut self.story.events };
        events.push((self.now, event));
    }
}
