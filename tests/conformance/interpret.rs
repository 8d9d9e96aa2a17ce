//! Operations as calls of the AsyncSteps API (FORMAT.md, sections 3 and 4).
#![expect(clippy::wildcard_enum_match_arm, reason = "each function knows the operations it is for")]

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_core::{Args, AsyncSteps, Error, Flow, StepResult, Template, codes};
use serde_json::{Map, Value, json};

use super::program::{Completing, FlowSpec, Model, Op, Ops, Repeated};
use super::promise::Promise;
use super::trace::{Traced, What};
use super::value::{Sight, Variables, info, info_value, values, with_tuple};
use super::world::{Due, Inhabitant, Named};

/// Adds what a level of any kind can add; gives whether the operation was such a step.
///
/// `Flow`, `AsyncSteps` and `TemplateSteps` share their method names, not a trait.
macro_rules! add_step {
    ($level:ident, $op:expr, $results:expr) => {
        match $op {
            Op::Add(step) => {
                let mut added = $level.add(body(&step.body));
                if let Some(ops) = &step.onerror {
                    added.on_error(handler(ops));
                }
                true
            }
            Op::Sync { o, step } => {
                let mut added = $level.sync(&Named((**o).into()), body(&step.body));
                if let Some(ops) = &step.onerror {
                    added.on_error(handler(ops));
                }
                true
            }
            Op::Parallel { l, branches, onerror } => {
                let mut added = $level.parallel(|p| {
                    for (index, branch) in branches.iter().enumerate() {
                        let (run, name) = (body(&branch.body), format!("{l}.{index}"));
                        let mut added = p.add(move |asi, ()| {
                            Inhabitant::enter_branch(asi, &name);
                            run(asi, Args::none())
                        });
                        if let Some(ops) = &branch.onerror {
                            added.on_error(handler(ops));
                        }
                    }
                });
                if let Some(ops) = onerror {
                    added.on_error(handler(ops));
                }
                true
            }
            Op::SuccessStep(results) => {
                with_tuple!($results(&results.a), |tuple| {
                    $level.success_step(tuple);
                });
                true
            }
            _ => false,
        }
    };
}

/// The template of a model; it may copy the ones before it.
pub(crate) fn template(model: &Model, before: &BTreeMap<String, Template>) -> Template {
    let sight = Sight::default();
    Template::build(|asi| {
        for (name, value) in &model.state {
            asi.state().set(name.clone(), value.clone());
        }
        for op in model.steps.0.iter() {
            if let Op::CopyFrom { t } = op {
                asi.copy_from(t.as_str().and_then(|name| before.get(name)).expect("built before"));
            } else {
                assert!(
                    add_step!(asi, op, |values: &[Value]| sight.fill_all(&model.state, values)),
                    "{op:?} in a template"
                );
            }
        }
    })
}

/// A flow of a program, ready to be executed.
pub(crate) fn flow(spec: &FlowSpec, inhabitant: &Inhabitant, enclosed: bool) -> Flow {
    let mut flow = Flow::new();
    for (name, value) in &spec.state {
        flow.state_mut().set(name.clone(), value.clone());
    }
    flow.extend(inhabitant.clone());
    flow.observe(inhabitant.watch());
    if enclosed {
        flow.add(body(&spec.steps));
        return flow;
    }
    for op in spec.steps.0.iter() {
        let sight = Sight::default();
        if add_step!(flow, op, |values: &[Value]| sight.fill_all(flow.state(), values)) {
            continue;
        }
        match op {
            Op::CopyFrom { t } => {
                let name = sight.fill(flow.state(), t);
                let name = name.as_str().expect("the name of a template");
                flow.copy_from(&inhabitant.world.templates[name]);
            }
            Op::Await(promised) => {
                let mut added = flow.await_(Promise::new(inhabitant, "", promised));
                if let Some(ops) = &promised.onerror {
                    added.on_error(handler(ops));
                }
            }
            _ => unreachable!("{op:?} on a root object"),
        }
    }
    flow
}

fn body(ops: &Ops) -> impl Fn(&mut AsyncSteps, Args) -> StepResult + use<> {
    let ops = ops.clone();
    move |asi, args| Callback::new(asi, values(args)?, None).run(asi, &ops)
}

fn handler(ops: &Ops) -> impl Fn(&mut AsyncSteps, &Error) -> StepResult + use<> {
    let ops = ops.clone();
    move |asi, error| Callback::new(asi, Vec::new(), Some(error)).run(asi, &ops)
}

/// One call of a callback.
struct Callback<'a> {
    of: Inhabitant,
    path: Arc<str>,
    args: Vec<Value>,
    error: Option<&'a Error>,
}

impl<'a> Callback<'a> {
    fn new(asi: &mut AsyncSteps, args: Vec<Value>, error: Option<&'a Error>) -> Self {
        let of = Inhabitant::of(asi);
        let path = of.path(asi.identity().branch);
        Self { of, path, args, error }
    }

    fn run(&self, asi: &mut AsyncSteps, ops: &Ops) -> StepResult {
        for op in ops.0.iter() {
            self.operate(asi, op)?;
            asi.check()?;
        }
        Ok(())
    }

    fn operate(&self, asi: &mut AsyncSteps, op: &Op) -> StepResult {
        let sight = self.sight();
        if add_step!(asi, op, |values: &[Value]| sight.fill_all(asi, values)) {
            return Ok(());
        }
        match op {
            Op::Success(given) => {
                with_tuple!(sight.fill_all(asi, &given.a), |tuple| asi.success(tuple))
            }
            Op::Error { code, info: given } => {
                let given = given.as_ref().map(|value| sight.fill(asi, value));
                asi.error(code.clone(), info(given))
            }
            Op::Break { label } => asi.break_loop(label.as_deref()),
            Op::Continue { label } => asi.continue_loop(label.as_deref()),
            Op::If { c, then, or } => self.run(asi, if sight.holds(asi, c) { then } else { or }),
            Op::Loop(each) => {
                let run = self.repeated(each);
                label(asi.make_loop(move |asi| run(asi, Vec::new())), each)
            }
            Op::Repeat { n, each } => {
                let run = self.repeated(each);
                label(asi.repeat(*n, move |asi, i| run(asi, vec![json!(i)])), each)
            }
            Op::ForEach { over, each } => self.for_each(asi, over, each),
            Op::CopyFrom { t } => {
                let name = sight.fill(asi, t);
                let template = name.as_str().and_then(|name| self.of.world.templates.get(name));
                match template {
                    Some(template) => asi.copy_from(template),
                    None => return asi.error(codes::INVOKER_ERROR, format!("no template {name}")),
                }
                Ok(())
            }
            _ => {
                self.act(asi, op);
                Ok(())
            }
        }
    }

    /// Operations that complete nothing.
    fn act(&self, asi: &mut AsyncSteps, op: &Op) {
        match op {
            Op::Trace { l, s } => self.emit(What::Trace(Traced {
                l: l.clone(),
                a: self.args.clone(),
                s: s.as_ref().map(|names| present(asi, names)),
                err: self.error.map(|error| error.code().to_owned()),
                info: self.error.map_or(Value::Null, |_| info_value(asi.error_info())),
            })),
            Op::Enter { o } => self.emit(What::Enter { o: o.clone() }),
            Op::Exit { o } => self.emit(What::Exit { o: o.clone() }),
            Op::SetTimeout { ms } => asi.set_timeout((*ms).into()),
            Op::SetCancel { l } => {
                let (of, path, l) = (self.of.clone(), self.path.clone(), l.clone());
                asi.set_cancel(move |_| of.emit(&path, What::Cancel { l }));
            }
            Op::WaitExternal => asi.wait_only(),
            Op::External { after, act } => {
                let act = self.external(asi, act);
                self.of.world.after(*after, Due::Act(act));
            }
            Op::Set { k, v } => {
                let value = self.sight().fill(asi, v);
                asi.state_mut().set(k.clone(), value);
            }
            Op::Inc { k } => {
                let count = asi.variable(k).and_then(|value| value.as_i64()).unwrap_or(0);
                asi.state_mut().set(k.clone(), json!(count + 1));
            }
            Op::Unset { k } => {
                asi.state_mut().remove(k);
            }
            Op::Await(promised) => {
                let mut added = asi.await_(Promise::new(&self.of, &self.path, promised));
                if let Some(ops) = &promised.onerror {
                    added.on_error(handler(ops));
                }
            }
            Op::Spawn { c } => {
                self.emit(What::Spawn { c: c.clone() });
                let spec = &self.of.world.children[c];
                let of = Inhabitant::new(c, &self.of.world);
                let enclosed = self.of.world.schedule.borrow_mut().pick(2) == 1;
                asi.launch(flow(spec, &of, enclosed));
            }
            _ => unreachable!("{op:?} has its place in `operate`"),
        }
    }

    fn external(&self, asi: &mut AsyncSteps, act: &Completing) -> Box<dyn FnOnce()> {
        let (sight, step) = (self.sight(), asi.completion());
        // a step that is over by then takes no notice
        match act {
            Completing::Success(given) => {
                let values = sight.fill_all(asi, &given.a);
                Box::new(move || {
                    let _ = with_tuple!(values, |tuple| step.success(tuple));
                })
            }
            Completing::Error { code, info: given } => {
                let given = info(given.as_ref().map(|value| sight.fill(asi, value)));
                let code = code.clone();
                Box::new(move || {
                    let _ = step.error(code, given);
                })
            }
        }
    }

    fn for_each(&self, asi: &mut AsyncSteps, over: &Value, each: &Repeated) -> StepResult {
        let run = self.repeated(each);
        match over {
            Value::Object(map) => {
                let names: Vec<String> = asi.state().names().map(str::to_owned).collect();
                let state = map.get("$state") == Some(&Value::Bool(true));
                let map = if state { present(asi, &names) } else { map.clone() };
                let map: BTreeMap<String, Value> = map.into_iter().collect();
                label(asi.for_each(map, move |asi, k, v| run(asi, vec![json!(k), v])), each)
            }
            list => {
                let list = list.as_array().cloned().unwrap_or_default();
                label(asi.for_each(list, move |asi, k, v| run(asi, vec![json!(k), v])), each)
            }
        }
    }

    fn repeated(
        &self,
        each: &Repeated,
    ) -> impl Fn(&mut AsyncSteps, Vec<Value>) -> StepResult + use<> {
        let ops = each.body.clone();
        move |asi, args| Callback::new(asi, args, None).run(asi, &ops)
    }

    fn sight(&self) -> Sight<'_> {
        Sight { args: &self.args, err: self.error.map(Error::code) }
    }

    fn emit(&self, what: What) {
        self.of.emit(&self.path, what);
    }
}

fn label(mut added: asyncsteps_core::AddedLoop<'_>, each: &Repeated) -> StepResult {
    if let Some(label) = &each.label {
        added.label(label.clone());
    }
    Ok(())
}

fn present(asi: &AsyncSteps, names: &[String]) -> Map<String, Value> {
    let found = names.iter().filter_map(|name| Some((name.clone(), asi.variable(name)?)));
    found.collect()
}
