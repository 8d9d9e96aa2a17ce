//! The front of a durable function for its callers: the request is submitted, and they wait for its
//! end.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::{Error, Template};
use asyncsteps_executor::plan::{AnswerWithin, Awaits, Handler, Plans};
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::typed::SensitiveFields;
use asyncsteps_executor::{FrontWait, Functions, RequestSteps, Service};
use asyncsteps_journal::Path;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::CallerRequest;
use crate::durable::{Declared, Durable, template_of};
use crate::replay::Replay;
use crate::shared::DurableFunction;
use crate::submit::Options;

/// The header of an answer that is of an earlier request with the same key: its name.
const REPLAYED: &str = "idempotency-replayed";

/// How much longer than its limit a request may take, which is answered by then that it goes on.
const ANSWER: Duration = Duration::from_secs(1);

impl Durable {
    /// Makes a function of the interface durable: a call of it survives the process that took it.
    ///
    /// A caller gets the answer when the request has ended, or
    /// [in time](asyncsteps_executor::Steps::answer_within) if the function says so. A caller that goes away, and
    /// the time limit of requests, do not end it.
    #[track_caller]
    pub fn on<S, Form, H>(
        &self,
        functions: &mut Functions<S>,
        function: &'static str,
        handler: H,
    ) -> Declared<'_>
    where
        S: Service,
        Form: DurableForm,
        H: Handler<S, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: Serialize + JsonSchema,
    {
        let iface = functions.interface();
        let template = template_of(iface.iface(), iface.version().major, function);
        let full = format!("{iface}:{function}");
        let declared = Declared::new(self, template.clone());
        let Some(planned) = functions.on_behind(&front(self), function, handler) else {
            // the executor is not built
            return declared;
        };
        let mut steps = planned.function.ways().iter().flatten();
        let answers = steps.find(|step| step.answers()).map(|step| {
            let root = Path::template(&template);
            Replay::default().place_of(&root, step).1
        });
        let program = DurableFunction {
            template,
            answers,
            function: full,
            version: 1,
            compatible: Vec::new(),
            checks: functions.checks(),
            sensitive: SensitiveFields::of::<H::Result>(),
            planned,
        };
        self.shared.add_program(program);
        declared
    }
}

/// The forms of handlers that [`Durable::on`] takes.
pub trait DurableForm {}

impl<P, R> DurableForm for (Plans, P, (), R) {}

impl<P, R> DurableForm for (Awaits, P, R) {}

/// A caller whose process stood still until its time had ended.
struct Overslept;

impl FrontWait for Overslept {
    fn too_late(&self) -> Error {
        Error::with_info(
            OUTCOME_UNKNOWN,
            "the time of the call has ended, and its request may go on",
        )
    }
}

/// The template of a request that is carried out by the journal's nodes.
fn front(durable: &Durable) -> Template {
    let durable = durable.clone();
    Template::build(|asi| {
        asi.add(move |asi, ()| {
            let info = asi.request_mut()?;
            let function = info.function().to_string();
            let mut options = Options::default().caller(info.caller()).counted_from(info.channel());
            if let Some((key, policy)) = info.idempotency_key()? {
                options = options.key(key).key_policy(policy);
            }
            let (params, arrived, executor) = (info.take_params(), info.begun(), info.executor());
            let (served, is_watched) = (info.handle(), info.handle().events().is_some());
            let limit = info.handle().time_left().filter(|_| !is_watched);
            let within = asi.extension::<AnswerWithin>().cloned().map(|within| (within, arrived));
            if let Some(left) = limit {
                // the answer in its place names the request
                asi.cancel_after(left + ANSWER)?;
                asi.request_mut()?.wait(Rc::new(Overslept));
            } else {
                // who watches waits for the end
                asi.cancel_after(Duration::ZERO)?;
            }
            let limit = limit.map(|left| clock::now() + left);
            let earlier = Rc::default();
            let called = CallerRequest {
                served,
                executor,
                function,
                params,
                options,
                within,
                limit,
                earlier: Rc::clone(&earlier),
            };
            // boxed where it is made: it is moved several times before it runs
            let answer = Box::pin(called.answer(durable.clone()));
            asi.await_(async move { Ok::<_, Error>((answer.await,)) }).named("durable");
            asi.add(move |asi, (answer,): (Result<Value, Error>,)| {
                if let Some(uid) = earlier.get() {
                    // where there are headers
                    let head = asi.head_mut();
                    _ = head.and_then(|head| head.set_header(REPLAYED, uid.to_string()).map(drop));
                }
                let result = answer?;
                if result.is_null() { Ok(()) } else { asi.reply(result) }
            });
            Ok(())
        });
    })
}
