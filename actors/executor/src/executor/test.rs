//! Requests of tests: the functions of an [`Executor`](crate::Executor) as their callers see them,
//! without a transport (FTN6 §1.2).

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::flow::FlowEnd;
use asyncsteps_core::sim::{self, Started};
use asyncsteps_core::{Arg, Args, AsyncSteps, Error, Flow, Outcome, StepLocation, Template, codes};
use asyncsteps_futoin::message::{Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::caller::Caller;
use super::check::{Admitted, Checked};
use super::dispatch::refuse;
use super::exchange::Exchange;
use super::handle::Executor;
use super::incoming::Incoming;
use super::over::{QueueTime, Timings};
use super::reply::{Reply, ReplyBody};
use super::reply_context::ReplyContext;
use super::request::RequestInfo;
use super::request_flow_owner::RequestFlowOwner;
use super::time_limit::TimeLimit;
use crate::channel::Channel;
use crate::observe;
use crate::security::{SecurityLevel, User};

/// A request for a function that an [`Executor`] has, made by a test.
///
/// It goes the way of every other request (FTN6 §1.2): parameters, access and result are checked
/// against the definition, the template of the function runs with its own locks, and the answer is what
/// a caller gets, limits of size and hidden errors included. By default the caller is anonymous and in
/// the same process.
///
/// - [`call`](Self::call) carries it out on an actix arbiter. With tokio's clock paused, time limits and
///   pauses take no time.
/// - [`flow`](Self::flow) makes a flow of it, for [`asyncsteps_core::sim`]: with random orders of
///   events, faults by the names of steps, and cuts everywhere.
///
/// ```
/// use asyncsteps_core::{Template, sim};
/// use asyncsteps_executor::{Executor, RequestSteps};
/// use asyncsteps_executor::iface::{Loader, Source};
/// use asyncsteps_executor::test::TestRequest;
/// use serde_json::json;
///
/// let definition = r#"{
///     "iface": "demo.greeter", "version": "1.0", "ftn3rev": "1.9",
///     "funcs": { "greet": { "params": { "name": { "type": "string" } },
///                           "result": "string" } },
///     "requires": ["AllowAnonymous"]
/// }"#;
/// let source = Source::texts([("demo.greeter-1.0-iface.json", definition)]);
/// let greeter = Loader::new([source]).load(&"demo.greeter:1.0".parse()?)?;
/// let greet = Template::build(|asi| {
///     asi.add(|asi, ()| {
///         let name: String = asi.param("name")?;
///         asi.reply(format!("Hello, {name}!"))
///     });
/// });
/// let executor = Executor::builder()
///     .interface(greeter, |functions| { functions.add("greet", &greet); })
///     .build()?;
///
/// let request = TestRequest::new("demo.greeter:1.0:greet");
/// sim::check(0..10, |sim| {
///     let greeted = sim.start(request.clone().params(json!({ "name": "Ann" })).flow(&executor));
///     let refused = sim.start(request.clone().params(json!({ "name": 7 })).flow(&executor));
///     sim.run();
///     greeted.assert_success();
///     refused.assert_error("InvalidRequest");
/// });
///
/// actix::System::new().block_on(async {
///     let text: String = request.params(json!({ "name": "Ann" })).call(&executor).await?;
///     assert_eq!(text, "Hello, Ann!");
///     Ok::<(), asyncsteps_core::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is called or made a flow"]
pub struct TestRequest {
    function: String,
    params: Map<String, Value>,
    caller: Caller,
    channel: Channel,
    key: Option<Arc<str>>,
    undoes_twice: bool,
}

/// The name of the step that represents the request.
const REQUEST: &str = "request";

/// In how many orders of their steps two requests are run side by side.
const INTERLEAVINGS: u64 = 100;

impl TestRequest {
    /// A request for a function, such as `acme.payments:1.0:charge`, without parameters.
    pub fn new(function: impl Into<String>) -> Self {
        Self {
            function: function.into(),
            params: Map::new(),
            caller: Caller::default(),
            channel: Channel::local(),
            key: None,
            undoes_twice: false,
        }
    }

    /// The parameters, as they would be written as JSON.
    ///
    /// # Panics
    /// If they are no map.
    #[track_caller]
    pub fn params(self, params: impl Serialize) -> Self {
        match serde_json::to_value(params) {
            Ok(Value::Object(params)) => Self { params, ..self },
            Ok(other) => panic!("the parameters of a request are a map, not {other}"),
            Err(error) => panic!("the parameters cannot be written as JSON: {error}"),
        }
    }

    /// The user who calls, with the level that their credentials would grant (FTN8 §2.12).
    pub fn user(self, local_id: &str, level: SecurityLevel) -> Self {
        self.caller(User::new(local_id, level))
    }

    /// The caller, see [`user`](Self::user).
    pub fn caller(self, caller: impl Into<Caller>) -> Self {
        Self { caller: caller.into(), ..self }
    }

    /// The channel that the request comes over: by default the channel of a call in the process,
    /// which is secure.
    pub fn channel(self, channel: Channel) -> Self {
        Self { channel, ..self }
    }

    /// The [key](super::IDEMPOTENCY_KEY) of the request, as a client over HTTP sends it: 1 to 128 printable characters of
    /// ASCII, without spaces around them. A function that looks at keys answers another one with InvalidRequest.
    pub fn key(self, key: &str) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Runs each successful undo of the request a second time when it is [called](Self::call), with the same outcome
    /// and the key of its step: a [durable](crate::recorder) request does so when a crash came before the end of the
    /// undo was stored. An undo has to have the same effect by that key however often it runs.
    ///
    /// For its [flow](Self::flow) there is [`Sim::undo_twice`](sim::Sim::undo_twice).
    pub fn undo_twice(self) -> Self {
        Self { undoes_twice: true, ..self }
    }

    /// Carries the request out on this arbiter; returns its result, which for a function without one
    /// is read from null.
    ///
    /// # Errors
    /// The code and the text that a caller gets. InvokerError if the result is not of the type asked
    /// for, or is raw data.
    ///
    /// # Panics
    /// Outside of an actix arbiter.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request, as a client that leaves.
    pub async fn call<T: DeserializeOwned>(self, executor: &Executor) -> Result<T, Error> {
        let result = result_of(executor.dispatch(self.into_incoming()).await)?;
        T::deserialize(result).map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))
    }

    /// The request as a flow, whose result is the result of the function as `(Value,)`, and whose
    /// error is the caller's; its cause is the error of the function, which callers do not see.
    ///
    /// It ends when the caller is answered, as [`call`](Self::call) does: after a time limit that is before
    /// everything is undone, which goes on in the simulation.
    ///
    /// The flow needs no arbiter. Steps that [call](super::CallSteps::call) other functions, queues of
    /// the executor's budget, and raw data do need one: for them there is [`call`](Self::call).
    #[track_caller]
    pub fn flow(self, executor: &Executor) -> Flow {
        let (executor, source) = (executor.clone(), Location::caller());
        let mut flow = Flow::new();
        flow.add(move |asi, ()| serve(asi, executor, self.into_incoming(), source));
        flow
    }

    /// Checks that the request and another one to the same function, with these parameters, leave each other alone:
    /// run side by side on one executor, in a hundred orders of their steps, each has the answer that it gets alone
    /// on an executor of its own. `executor` builds one, with a state of its own.
    ///
    /// A [plan](crate::plan) is built once, so a value that its closures capture is shared by all requests, on all
    /// threads: a counter, a `Mutex` with the value of an earlier step, a cache. That is how one request leaks into
    /// another. Values of a request go from step to step or are in [`Cx::state`](crate::plan::Cx::state), and values
    /// that requests share on purpose are in the service.
    ///
    /// So the answers have to depend on the parameters alone: choose some by which the requests do not compete, such
    /// as different customers. It runs in simulations, as [`flow`](Self::flow) does.
    ///
    /// ```should_panic
    /// use std::sync::atomic::{AtomicI32, Ordering};
    ///
    /// use asyncsteps_executor::{Executor, Service, test::TestRequest, typed::Interface};
    /// use asyncsteps_executor::{Returns, Steps};
    ///
    /// struct Shop;
    /// impl Service for Shop { type Errors = (); }
    ///
    /// fn number(steps: &Steps<Shop, ()>) -> Returns<i32> {
    ///     let last = AtomicI32::new(0);
    ///     steps.run("next", async move |_, ()| Ok(last.fetch_add(1, Ordering::Relaxed))).returns()
    /// }
    ///
    /// let executor = || {
    ///     let mut shop = Interface::new("acme.shop:1.0".parse().unwrap());
    ///     shop.allow_anonymous();
    ///     Executor::builder().service(shop, Shop, |it| { it.on("number", number); }).build().unwrap()
    /// };
    /// // panics: the second request gets 1
    /// TestRequest::new("acme.shop:1.0:number").twice(serde_json::json!({}), executor);
    /// ```
    ///
    /// # Panics
    /// If an answer differs, with both answers, the parameters and the seed; or if the parameters are no map.
    #[track_caller]
    pub fn twice(self, params: impl Serialize, executor: impl Fn() -> Executor) {
        let requests = [self.clone(), self.params(params)];
        let alone = requests.each_ref().map(|request| request.answer_alone(&executor()));
        sim::check(0..INTERLEAVINGS, |sim| {
            let executor = executor();
            let started = requests.each_ref().map(|it| sim.start(it.clone().flow(&executor)));
            sim.run();
            for ((request, started), alone) in requests.iter().zip(started).zip(&alone) {
                let answer = answer_of(&started);
                assert!(
                    answer == *alone,
                    "{} with {} leaks: beside another request it is answered {answer}, alone {alone}",
                    request.function,
                    Value::Object(request.params.clone()),
                );
            }
        });
    }

    /// Its answer if nothing else runs.
    fn answer_alone(&self, executor: &Executor) -> String {
        let answer = RefCell::default();
        sim::check([0], |sim| {
            let started = sim.start(self.clone().flow(executor));
            sim.run();
            answer.replace(answer_of(&started));
        });
        answer.into_inner()
    }

    fn into_incoming(self) -> Incoming {
        let Self { function, params, caller, channel, key, undoes_twice } = self;
        let mut incoming = Incoming::new(Request::new(&function, params), channel);
        incoming.0.parts.undoes_twice = undoes_twice;
        incoming.with_caller(caller).with_key(key)
    }
}

/// The result or error of a request that has ended, as a text.
fn answer_of(started: &Started) -> String {
    let Some(outcome) = started.take_outcome() else { return "never".to_owned() };
    match outcome.into_result::<(Value,)>() {
        Ok((value,)) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Adds the steps of a request that a test made at `source`: it is admitted, then it runs.
fn serve(
    asi: &mut AsyncSteps,
    executor: Executor,
    Incoming(mut incoming): Incoming,
    source: &'static Location<'static>,
) {
    let arrived = asi.now();
    asi.await_(async move {
        let shared = &executor.shared;
        let mut times = Timings { arrived, queued: QueueTime::For(Duration::ZERO) };
        let mut reply_to = ReplyContext::new(shared, &incoming.parts);
        let admitted = match shared.admit(&mut incoming.parts, &mut reply_to, &mut times) {
            Ok(arrived) => {
                shared.admitted(arrived, &mut incoming.parts, &mut reply_to, &mut times).await
            }
            Err(refused) => Err(refused),
        };
        match admitted {
            Ok(admitted) => Ok(Running::new(reply_to, incoming, times, admitted)),
            Err(refused) => {
                let reply = refuse(&reply_to, incoming.parts.request.f(), times, &refused);
                Err(result_of(reply).err().unwrap_or_else(no_message))
            }
        }
    })
    .named("admission")
    .located_at(source);
    asi.add(move |asi, running: Running| running.run(asi, source)).located_at(source);
}

/// A request that was admitted.
struct Running {
    exchange: Rc<Exchange>,
    template: Template,
    incoming: Box<RequestInfo>,
    patience: Duration,
}

impl Arg for Running {}

impl Running {
    fn new(
        reply_to: ReplyContext,
        mut incoming: Box<RequestInfo>,
        times: Timings,
        admitted: Admitted,
    ) -> Self {
        let Admitted { checked, admission, deadline, patience } = admitted;
        let Checked { function, template, called, params } = checked;
        let (rid, trace) = (reply_to.rid.as_ref(), reply_to.trace.span);
        let span = observe::request_span(&called, rid, trace, times.arrived);
        let limit = TimeLimit::new(deadline, patience);
        let received = incoming.parts.received();
        let called = (called, function);
        let exchange = Exchange::new(reply_to, called, received, times, span, admission, limit);
        (incoming.exchange, incoming.params) = (Some(Rc::clone(&exchange)), params);
        Self { exchange, template, incoming, patience }
    }

    /// Adds the steps of the function, and the answer to their result.
    fn run(self, asi: &mut AsyncSteps, source: &'static Location<'static>) {
        let Self { exchange, template, incoming, patience } = self;
        asi.extend(*incoming);
        let (failure, failed) = (Rc::new(Cell::new(None)), Rc::clone(&exchange));
        let fails = Rc::clone(&failure);
        asi.scope(move |asi, ()| {
            asi.copy_from(&template);
        })
        .named(REQUEST)
        .located_at(source)
        .ends_flow_after(patience)
        .on_error(move |asi, error| {
            let answer = if is_deadline(error) {
                let response = Response::error(codes::INTERNAL_ERROR, None);
                result_of(RequestFlowOwner(failed).reply(response, None))
            } else {
                answer(asi, failed, FlowEnd::Done(Outcome::Error(error.clone())))
            };
            // a test that fails shows the cause that is hidden from callers
            fails.set(answer.err().map(|hidden| hidden.with_cause(error.clone())));
            asi.success(())
        });
        asi.add(move |asi, result: Args| {
            if let Some(error) = failure.take() {
                return Err(error.into());
            }
            let result = answer(asi, exchange, FlowEnd::Done(Outcome::Success(result)))?;
            asi.success((result,))
        })
        .located_at(source);
    }
}

/// Whether the time of the request has expired.
fn is_deadline(error: &Error) -> bool {
    let name = error.location().and_then(StepLocation::name);
    error.limit().is_some() && name == Some(REQUEST)
}

/// The caller's answer to a request whose steps ended like this.
fn answer(asi: &mut AsyncSteps, exchange: Rc<Exchange>, end: FlowEnd) -> Result<Value, Error> {
    let (written, head) = match asi.extension_mut::<RequestInfo>() {
        Some(info) => (info.response.take(), info.take_head()),
        None => (None, None),
    };
    let responder = RequestFlowOwner(exchange);
    let response = responder.response(written, end).unwrap_or_else(|failure| failure);
    responder.0.release(true);
    result_of(responder.reply(response, head))
}

/// The result in a reply, read from the bytes that a caller gets.
fn result_of(reply: Reply) -> Result<Value, Error> {
    let message = match reply.into_body() {
        ReplyBody::Message(message) => message,
        ReplyBody::Nothing => return Ok(Value::Null),
        ReplyBody::Raw(_) => {
            let info = "raw data is not read by a `TestRequest`";
            return Err(Error::with_info(codes::INVOKER_ERROR, info));
        }
    };
    let message: Map<String, Value> = serde_json::from_slice(&message.into_bytes())
        .map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))?;
    let text = |field| message.get(field).and_then(Value::as_str).map(str::to_owned);
    match text("e") {
        Some(code) => Err(Error::with_info(code, text("edesc"))),
        None => Ok(message.get("r").cloned().unwrap_or_default()),
    }
}

/// A refusal is always a message with an error.
fn no_message() -> Error {
    Error::with_info(codes::INVOKER_ERROR, "the request was refused without an error")
}
