//! The actor of a flow takes messages from other arbiters and threads: whatever it is told, and whenever
//! it ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use actix::{
    Actor, Addr, Arbiter, AsyncContext, Context, Handler, MailboxError, Message, WrapFuture,
};
use asyncsteps_actors::flow::{
    Cancel, CompleteError, Completer, FlowActor, FlowContext, FlowEnd, FlowHandle, FlowOwner,
    FlowRef, Inspect, Stack, WaitSteps, host_flow, running_flows, spawn_flow, start_flow,
};
use asyncsteps_core::{Arg, Completion, Error, Execution, Flow, Outcome, WaitReason};
use tokio::sync::oneshot;

/// Runs work on a thread of its own that has a runtime but no actix system.
fn on_a_thread<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> oneshot::Receiver<T> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        // the test may have failed meanwhile
        let _ = tell.send(runtime.expect("a runtime").block_on(work));
    });
    told
}

/// A flow whose named step waits for a message with a number, its result.
fn waiting(name: &'static str) -> Flow {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.wait_for_message()).named(name);
    flow.add(|asi, number: i32| asi.success(number));
    flow
}

fn names(stack: &Stack) -> Vec<Option<&'static str>> {
    stack.waits.iter().map(|wait| wait.stack.last().and_then(|step| step.name())).collect()
}

async fn inspect(flow: &Addr<FlowActor>) -> Stack {
    flow.send(Inspect).await.expect("it answers")
}

#[actix::test]
async fn a_thread_completes_a_wait_that_it_found_in_the_stack() {
    let handle = start_flow::<i32>(waiting("approval"));
    let address = handle.address();
    let completed = on_a_thread(async move {
        let wait = inspect(&address).await.waits[0].id.expect("it waits for a completion");
        let completer = Completer::new(address, wait);
        let first = completer.success(7).await;
        (first, completer.success(8).await)
    });
    assert_eq!(handle.await.expect("it was completed"), 7);
    assert_eq!(completed.await, Ok((Ok(()), Err(CompleteError::Stale))));
}

#[actix::test]
async fn a_completer_can_fail_the_step() {
    let handle = start_flow::<i32>(waiting("approval"));
    let wait = handle.stack().waits[0].id.expect("it waits for a completion");
    let completer = handle.completer(wait);
    let failed = on_a_thread(async move { completer.fail(Error::new("Refused")).await });
    assert_eq!(handle.await.expect_err("it was refused").code(), "Refused");
    assert_eq!(failed.await, Ok(Ok(())));
}

#[actix::test]
async fn a_wait_of_another_flow_is_refused_and_both_go_on() {
    let (one, two) = (start_flow::<i32>(waiting("one")), start_flow::<i32>(waiting("two")));
    let [first, second] = [&one, &two].map(|flow| flow.stack().waits[0].id.expect("it waits"));
    let crossed = Completer::new(one.address(), second).success(1).await;
    assert_eq!(crossed, Err(CompleteError::ForeignWait));
    assert!(one.is_valid() && two.is_valid());
    for (flow, wait) in [(one, first), (two, second)] {
        flow.completer(wait).success(2).await.expect("it waits");
        assert_eq!(flow.await.expect("it was completed"), 2);
    }
}

#[actix::test]
async fn a_completion_and_a_message_complete_a_step_once() {
    let slot: Rc<RefCell<Option<Completion>>> = Rc::default();
    let inside = Rc::clone(&slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| *inside.borrow_mut() = Some(asi.wait_external()));
    let handle = start_flow::<i32>(flow);
    let wait = handle.stack().waits[0].id.expect("it waits for a completion");
    let completion = slot.take().expect("the flow waits");
    completion.success(1).expect("it waits");
    assert_eq!(handle.completer(wait).success(2).await, Err(CompleteError::Stale));
    assert_eq!(handle.await.expect("it was completed"), 1);
}

#[actix::test]
async fn only_waits_for_a_completion_have_a_name() {
    let mutex = asyncsteps_actors::sync::Mutex::new(Default::default());
    let guard = mutex.try_lock().expect("it is free");
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(|asi, ()| asi.wait_for_message()).named("message");
        p.sync(&mutex, |_, ()| {});
        p.add(|asi, ()| asi.wait_only()).named("limit");
    });
    let handle: FlowHandle = start_flow(flow);
    let stack = inspect(&handle.address()).await;
    let reasons: Vec<_> =
        stack.waits.iter().map(|wait| (&wait.reason, wait.id.is_some())).collect();
    assert!(matches!(
        reasons[..],
        [(WaitReason::External, true), (WaitReason::Object(_), false), (WaitReason::End, false)]
    ));
    drop(guard);
    handle.cancel();
    assert!(handle.await.is_err());
}

#[actix::test]
async fn a_running_flow_with_branches_is_inspected_from_another_arbiter() {
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(|asi, ()| asi.wait_for_message()).named("one");
        p.add(|asi, ()| {
            // never waits
            asi.make_loop(|_| {});
        })
        .named("two");
    })
    .named("both");
    let handle: FlowHandle = start_flow(flow);
    let (address, arbiter) = (handle.address(), Arbiter::new());
    let (tell, told) = oneshot::channel();
    arbiter.spawn(async move {
        let stacks = [inspect(&address).await, inspect(&address).await];
        // the test may have failed meanwhile
        let _ = tell.send(stacks);
    });
    for stack in told.await.expect("it answers") {
        assert_eq!(stack.waits.len(), 2);
        assert!(stack.waits.iter().all(|wait| wait.stack[0].name() == Some("both")));
        assert_eq!(stack.waits[1].reason, WaitReason::Turn);
    }
    handle.cancel();
    assert!(handle.await.is_err());
    arbiter.stop();
    arbiter.join().expect("no panic");
}

#[actix::test]
async fn an_inspection_is_no_turn_of_the_flow() {
    tokio::time::pause();
    let handle = start_flow::<i32>(waiting("approval"));
    let address = handle.address();
    for seconds in [10, 20] {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(inspect(&address).await.idle.as_secs(), seconds);
    }
    handle.cancel();
    assert!(handle.await.is_err());
}

#[actix::test]
async fn messages_to_a_flow_that_is_over_are_answered() {
    let mut instant = Flow::new();
    instant.add(|_, ()| {});
    let ended_at_once: FlowHandle = start_flow(instant);
    let waited: FlowHandle<i32> = start_flow(waiting("approval"));
    let wait = waited.stack().waits[0].id.expect("it waits");
    let before = waited.address();
    waited.cancel();
    while waited.is_valid() {
        tokio::task::yield_now().await;
    }
    assert_eq!(before, waited.address(), "the mailbox goes on");
    for address in [before, ended_at_once.address()] {
        assert!(inspect(&address).await.waits.is_empty());
        address.send(Cancel).await.expect("it answers");
        let completed = Completer::new(address.clone(), wait).success(1).await;
        assert_eq!(completed, Err(CompleteError::Stale));
        drop(address);
    }
    // all addresses are gone: a new one has a new mailbox
    assert!(inspect(&waited.address()).await.waits.is_empty());
    assert!(waited.await.is_err());
}

#[actix::test]
async fn an_address_can_be_dropped_and_taken_again_while_the_flow_waits() {
    let handle = start_flow::<i32>(waiting("approval"));
    for _ in 0..3 {
        assert_eq!(names(&inspect(&handle.address()).await), [Some("approval")]);
        tokio::task::yield_now().await;
    }
    let wait = handle.stack().waits[0].id.expect("it waits");
    handle.completer(wait).success(1).await.expect("it waits");
    assert_eq!(handle.await.expect("it was completed"), 1);
}

#[actix::test]
async fn a_request_that_is_dropped_leaves_the_flow_alone() {
    let handle = start_flow::<i32>(waiting("approval"));
    let address = handle.address();
    drop(address.send(Inspect));
    tokio::task::yield_now().await;
    assert_eq!(names(&inspect(&address).await), [Some("approval")]);
    address.send(Cancel).await.expect("it answers");
    assert!(handle.await.is_err());
}

#[actix::test]
async fn a_step_can_take_the_address_of_its_own_flow() {
    let own: Rc<RefCell<Option<FlowHandle<i32>>>> = Rc::default();
    let inside = Rc::clone(&own);
    let (tell, told) = oneshot::channel();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let address = inside.borrow().as_ref().expect("it was spawned before").address();
        // the test may have failed meanwhile
        let _ = tell.send(address);
        asi.wait_for_message();
    })
    .named("own");
    own.replace(Some(spawn_flow(flow)));
    let address = told.await.expect("the flow runs");
    let wait = inspect(&address).await.waits[0].id.expect("it waits");
    Completer::new(address, wait).success(3).await.expect("it waits");
    let handle = own.take().expect("it is here");
    assert_eq!(handle.await.expect("it was completed"), 3);
}

#[actix::test]
async fn a_panic_in_a_flow_with_an_address_ends_the_flow_and_not_its_actor() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.wait_for_message());
    flow.add(|_, ()| panic!("in a step"));
    let handle: FlowHandle = start_flow(flow);
    let address = handle.address();
    let wait = inspect(&address).await.waits[0].id.expect("it waits");
    Completer::new(address.clone(), wait).success(()).await.expect("it waits");
    let error = handle.await.expect_err("it panics");
    assert_eq!(error.panic_message(), Some("in a step"));
    assert!(inspect(&address).await.waits.is_empty());
}

#[test]
fn messages_to_an_arbiter_that_stopped_are_refused() {
    actix_rt::System::new().block_on(async {
        let arbiter = Arbiter::new();
        let (tell, told) = oneshot::channel();
        arbiter.spawn_fn(move || {
            let handle = start_flow::<i32>(waiting("approval"));
            let wait = handle.stack().waits[0].id.expect("it waits");
            // the test may have failed meanwhile
            let _ = tell.send((handle.address(), wait));
            handle.detach();
        });
        let (address, wait) = told.await.expect("the flow waits");
        assert_eq!(inspect(&address).await.waits.len(), 1);
        arbiter.stop();
        arbiter.join().expect("no panic");
        assert_eq!(address.send(Cancel).await, Err(MailboxError::Closed));
        let completed = Completer::new(address, wait).success(1).await;
        assert_eq!(completed, Err(CompleteError::Gone));
    });
}

/// An owner that passes on how its flow ended.
struct Told(Option<oneshot::Sender<FlowEnd>>);

impl FlowOwner for Told {
    fn ended(&mut self, _: &mut Execution, end: FlowEnd) -> Option<Outcome> {
        let told = self.0.take().expect("it ends once");
        told.send(end).expect("the test waits");
        None
    }
}

#[actix::test]
async fn a_flow_with_an_owner_has_an_address_and_its_owner_is_told_of_its_end() {
    let (tell, told) = oneshot::channel();
    let flow: FlowRef = host_flow(waiting("owned"), Told(Some(tell))).expect("it waits");
    let address = flow.address();
    drop(flow);
    assert_eq!(names(&inspect(&address).await), [Some("owned")]);
    address.send(Cancel).await.expect("it answers");
    assert!(matches!(told.await, Ok(FlowEnd::Cancelled)));

    let (tell, told) = oneshot::channel();
    let mut instant = Flow::new();
    instant.add(|_, ()| {});
    assert!(host_flow(instant, Told(Some(tell))).is_none(), "it ended in its first turn");
    assert!(told.await.expect("it was told").is_done());
}

#[actix::test]
async fn flows_that_were_launched_are_listed_with_the_others() {
    assert!(running_flows().is_empty(), "listing begins here");
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let mut child = asi.new_instance();
        child.add(|asi, ()| asi.wait_for_message()).named("launched");
        asi.launch(child);
    });
    start_flow::<()>(flow).await.expect("it launches one");
    let started: FlowHandle<i32> = start_flow(waiting("started"));
    tokio::task::yield_now().await;
    let mut listed: Vec<_> = running_flows().iter().flat_map(|flow| names(&flow.stack())).collect();
    listed.sort_unstable();
    assert_eq!(listed, [Some("launched"), Some("started")]);
    drop(started);
    running_flows().iter().for_each(FlowRef::cancel);
    while !running_flows().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Asks the actor of a flow to ask itself, with the means of its context.
#[derive(Message)]
#[rtype(result = "()")]
struct Roundabout(oneshot::Sender<usize>);

impl Handler<Roundabout> for Relay {
    type Result = ();

    fn handle(&mut self, Roundabout(reply): Roundabout, ctx: &mut Context<Self>) {
        let flow = self.0.clone();
        let asked = async move {
            let waits = flow.send(Inspect).await.map_or(0, |stack| stack.waits.len());
            // the test may have failed meanwhile
            let _ = reply.send(waits);
        };
        ctx.spawn(asked.into_actor(self));
    }
}

/// An actor of a user that knows a flow by its address.
struct Relay(Addr<FlowActor>);

impl Actor for Relay {
    type Context = Context<Self>;
}

#[actix::test]
async fn actors_of_users_send_messages_to_flows() {
    let handle = start_flow::<i32>(waiting("approval"));
    let relay = Relay(handle.address()).start();
    let (reply, waits) = oneshot::channel();
    relay.send(Roundabout(reply)).await.expect("it answers");
    assert_eq!(waits.await, Ok(1));
    drop(handle);
}

/// A message of a user for flows: their context spawns futures, waits for them and takes them back.
struct SendLater(std::sync::mpsc::Sender<&'static str>);

impl Message for SendLater {
    type Result = ();
}

impl Handler<SendLater> for FlowActor {
    type Result = ();

    fn handle(&mut self, SendLater(log): SendLater, ctx: &mut FlowContext) {
        let says = |what: &'static str| {
            let log = log.clone();
            async move {
                tokio::task::yield_now().await;
                // the test may have failed meanwhile
                let _ = log.send(what);
            }
        };
        ctx.wait(says("waited").into_actor(self));
        ctx.spawn(says("spawned").into_actor(self));
        let taken_back = ctx.spawn(says("taken back").into_actor(self));
        ctx.cancel_future(taken_back);
        assert!(ctx.waiting());
        let _ = log.send("handled");
    }
}

#[actix::test]
async fn the_context_of_a_flow_runs_futures_of_handlers() {
    let handle = start_flow::<i32>(waiting("approval"));
    let address = handle.address();
    let (log, said) = std::sync::mpsc::channel();
    let (first, second) = (address.send(SendLater(log.clone())), address.send(Inspect));
    first.await.expect("it answers");
    assert_eq!(names(&second.await.expect("it answers")), [Some("approval")]);
    drop(log);
    let mut all = Vec::new();
    while all.len() < 3 {
        all.extend(said.try_iter());
        tokio::task::yield_now().await;
    }
    assert_eq!(all, ["handled", "waited", "spawned"]);
    assert_eq!(said.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    drop(handle);
}

/// Logs that it was dropped.
struct Big(Rc<Cell<bool>>);

impl Arg for Big {}

impl Drop for Big {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[actix::test]
async fn a_result_that_no_handle_takes_is_dropped_although_an_address_lives() {
    tokio::time::pause();
    for detached_late in [false, true] {
        let dropped = Rc::new(Cell::new(false));
        let result = Big(Rc::clone(&dropped));
        let mut flow = Flow::new();
        flow.steps().sleep(Duration::from_millis(5));
        flow.add(move |asi, ()| asi.success(result));
        let handle: FlowHandle = start_flow(flow);
        let address = handle.address();
        if detached_late {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(!dropped.get(), "the handle may take it");
        }
        handle.detach();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(dropped.get() && address.connected());
    }
}
