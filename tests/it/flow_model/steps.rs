//! The steps of a program, as the engine runs them.

use std::panic::resume_unwind;
use std::time::Duration;

use asyncsteps_core::{Added, Args, AsyncSteps, Completion, Error, Parallel, Stale, StepResult};

use super::engine::{Here, args, at, values};
use super::program::{
    self, Body, Decision, End, Handler, Id, Kind, Late, Leave, Loop, Node, Outside, Step, Takes,
    Wait, counter,
};
use super::things::{Awaited, Kept};

impl Here {
    pub(crate) fn add(&self, asi: &mut AsyncSteps, nodes: Vec<Node>) {
        for node in nodes {
            self.add_node(asi, node);
        }
    }

    fn add_node(&self, asi: &mut AsyncSteps, node: Node) {
        let here = self.clone();
        match node {
            Node::Step(Step { id, takes, body, handler }) => {
                let added = asi.add(move |asi, args: Args| here.step(asi, args, id, takes, body));
                self.handled(added, handler);
            }
            Node::Sync(Step { id, takes, body, handler }) => {
                let added = asi.sync(&self.mutex(), move |asi, args: Args| {
                    here.step(asi, args, id, takes, body)
                });
                self.handled(added, handler);
            }
            Node::Parallel { branches, handler } => {
                // with a whole turn before them, all branches start before one of them goes on
                asi.add(|asi, ()| asi.relinquish());
                let added = asi.parallel(|parallel| self.add_branches(parallel, branches));
                self.handled(added, handler);
            }
            Node::Loop(looped) => self.add_loop(asi, looped),
            Node::Result(result) => {
                asi.success_step(args(&result));
            }
            Node::Await { wait, handler } => {
                let added = asi.await_(Awaited::new(here, wait));
                self.handled(added, handler);
            }
            Node::Shielded { wait, handler } => {
                let mut added = asi.run(async move |_: Args| {
                    let result = Awaited::new(here.clone(), wait.clone()).await;
                    here.log(format!("+{}", wait.pause.id));
                    Ok(result?)
                });
                added.shielded();
                self.handled(added.untyped(), handler);
            }
        }
    }

    fn add_branches(&self, parallel: &mut Parallel, branches: Vec<Step>) {
        for Step { id, takes, body, handler } in branches {
            let here = Self { branch: id, ..self.clone() };
            let inside = here.clone();
            let added =
                parallel.add(move |asi, ()| inside.step(asi, Args::none(), id, takes, body));
            here.handled(added, handler);
        }
    }

    fn add_loop(&self, asi: &mut AsyncSteps, looped: Loop) {
        let Loop { id, label, kind, count, body } = looped;
        let here = self.clone();
        let iteration = move |asi: &mut AsyncSteps, i: usize| {
            here.log(format!("@{id} {i}"));
            here.body(asi, id, body.clone())
        };
        let mut added = match kind {
            Kind::Repeat => asi.repeat(count, iteration),
            Kind::ForEach => {
                let list: Vec<usize> = (0..count).collect();
                asi.for_each(list, move |asi, key, value| {
                    assert_eq!(key, value);
                    iteration(asi, value)
                })
            }
            Kind::Endless => {
                let (here, mut numbers) = (self.clone(), 0..);
                asi.make_loop(move |asi| match numbers.next() {
                    Some(i) if i < count => iteration(asi, i),
                    _ => {
                        here.log(format!("@{id} {count}"));
                        asi.break_loop(None)
                    }
                })
            }
        };
        if let Some(label) = label {
            added.label(label);
        }
    }

    /// Sets the handler of a step that was just added.
    fn handled(&self, mut added: Added<'_>, handler: Option<Handler>) {
        let here = self.clone();
        if let Some(handler) = handler {
            added.on_error(move |asi, error| here.handle(asi, error, handler));
        }
    }

    fn step(
        &self,
        asi: &mut AsyncSteps,
        args: Args,
        id: Id,
        takes: Takes,
        body: Body,
    ) -> StepResult {
        let taken = match takes {
            Takes::Anything => values(args),
            Takes::Nothing => args.into_typed::<()>().map(|()| Vec::new())?,
            Takes::One => args.into_typed::<i64>().map(|one| vec![one])?,
            Takes::Two => args.into_typed::<(i64, i64)>().map(|(a, b)| vec![a, b])?,
        };
        self.log(format!(">{id} {}", takes.shown(&taken)));
        self.body(asi, id, body)
    }

    fn body(&self, asi: &mut AsyncSteps, id: Id, body: Body) -> StepResult {
        if let Some(limit) = body.limit {
            let now = self.world.now.get();
            asi.set_timeout(Duration::from_nanos(limit.end(now) - now));
        }
        if body.cancel {
            let here = self.clone();
            asi.set_cancel(move |_| here.log(format!("x{id}")));
        }
        if body.value {
            let _ = asi.stack(Kept { here: self.clone(), id });
        }
        if body.count {
            let count = asi.state_mut().get_mut::<i64>(&counter(id).to_string());
            *count.expect("set at the start") += 1;
        }
        match body.end {
            End::Return => Ok(()),
            End::Success(result) => asi.success(args(&result)),
            End::Error(info) => asi.error(program::code(id), program::info(id, info)),
            // without the hook, which would print it
            End::Panic => resume_unwind(Box::new("a panic of the program")),
            End::Leave(Leave { again, label }) => leave(asi, again, label),
            End::Wait(wait) => {
                self.wait(asi, wait);
                Ok(())
            }
            End::Until(pause) => {
                asi.wait_until(at(pause.end(self.world.now.get())));
                Ok(())
            }
            End::Steps(nodes) => {
                self.add(asi, nodes);
                Ok(())
            }
            End::StepsAnd(nodes, late) => {
                self.add(asi, nodes);
                too_late(asi, late)
            }
            End::SuccessAnd(late) => {
                asi.success(())?;
                if let Late::Add = late {
                    asi.success_step(());
                }
                too_late(asi, late)
            }
        }
    }

    fn wait(&self, asi: &mut AsyncSteps, Wait { pause, result }: Wait) {
        let done = asi.wait_external();
        self.after(pause, move || {
            // the step may be over by then
            let _ = match result {
                Outside::Success(values) => succeed(&done, &values),
                Outside::Error(info) => {
                    done.error(program::code(pause.id), program::info(pause.id, info))
                }
                Outside::Abandoned => Ok(()),
            };
        });
    }

    fn handle(&self, asi: &mut AsyncSteps, error: &Error, handler: Handler) -> StepResult {
        let Handler { id, end } = handler;
        assert_eq!(asi.error_info(), error.info(), "the last error is the one that is handled");
        self.log(format!("!{id} {}", program::shown(error.code(), error.info())));
        match end {
            Decision::Silent => Ok(()),
            Decision::Success(values) => asi.success(args(&values)),
            Decision::Error(info) => asi.error(program::code(id), program::info(id, info)),
            Decision::Steps(nodes) => {
                self.add(asi, nodes);
                Ok(())
            }
            Decision::Leave(Leave { again, label }) => leave(asi, again, label),
            Decision::Panic => resume_unwind(Box::new("a panic of the program")),
            Decision::Wait => {
                asi.wait_only();
                Ok(())
            }
            Decision::StepsAndSuccess => {
                asi.success_step(());
                asi.success(())
            }
        }
    }
}

fn succeed(done: &Completion, values: &[i64]) -> Result<(), Stale> {
    match *values {
        [] => done.success(()),
        [one] => done.success(one),
        [one, two] => done.success((one, two)),
        _ => unreachable!("programs use up to two"),
    }
}

fn leave(asi: &mut AsyncSteps, again: bool, label: Option<&str>) -> StepResult {
    if again { asi.continue_loop(label) } else { asi.break_loop(label) }
}

fn too_late(asi: &mut AsyncSteps, late: Late) -> StepResult {
    match late {
        Late::Success => asi.success(()),
        Late::Error => asi.error("Late", ()),
        Late::Add => Ok(()),
        Late::Leave(Leave { again, label }) => leave(asi, again, label),
    }
}
