//! Flows hosted on an arbiter: results, time, cancel, panics and the end of the arbiter.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use actix::Arbiter;
use asyncsteps_actors::flow::{
    Cancel, DeadlineSteps, FlowHandle, Inspect, IntoFlow, spawn_flow, start_flow,
};
use asyncsteps_core::{Completion, Flow, Template, codes};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Reports that it is dropped.
struct OnDrop(Option<oneshot::Sender<()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            // the test may not listen
            let _ = told.send(());
        }
    }
}

/// A flow that waits for the completion it puts into `slot`.
fn waiting(slot: &Rc<RefCell<Option<Completion>>>) -> Flow {
    let slot = Rc::clone(slot);
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        *slot.borrow_mut() = Some(asi.wait_external());
    })
    .named("wait");
    flow
}

#[actix::test]
async fn a_flow_that_does_not_wait_is_done_when_start_returns() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.success(20));
    flow.add(|asi, n: i32| asi.success(n + 1));
    let handle = start_flow::<i32>(flow);
    assert!(!handle.is_valid());
    assert_eq!(handle.await.expect("it succeeds"), 21);
}

#[actix::test]
async fn a_spawned_flow_starts_after_its_spawner() {
    let started = Rc::new(Cell::new(false));
    let mut flow = Flow::new();
    let inside = Rc::clone(&started);
    flow.add(move |_, ()| inside.set(true));
    let handle = spawn_flow::<()>(flow);
    assert!(!started.get());
    handle.await.expect("it succeeds");
    assert!(started.get());
}

#[actix::test]
async fn a_completion_from_another_thread_resumes_the_flow_on_its_own() {
    let slot = Rc::default();
    let handle: FlowHandle<u64> = start_flow(waiting(&slot));
    let completion = slot.borrow_mut().take().expect("the flow waits");
    assert!(handle.is_valid());
    std::thread::spawn(move || completion.success(7u64)).join().expect("no panic").expect("waits");
    assert_eq!(handle.await.expect("it succeeds"), 7);
}

#[actix::test]
async fn a_time_limit_cancels_what_runs() {
    tokio::time::pause();
    let start = Instant::now();
    let cancelled = Rc::new(Cell::new(0));
    let (counter, mut flow) = (Rc::clone(&cancelled), Flow::new());
    flow.add(move |asi, ()| {
        asi.set_timeout(Duration::from_secs(3));
        asi.add(move |asi, ()| {
            asi.set_cancel(move |_| counter.set(counter.get() + 1));
        });
    });
    let error = start_flow::<()>(flow).await.expect_err("nothing completes it");
    assert_eq!(error.code(), codes::TIMEOUT);
    assert_eq!(cancelled.get(), 1);
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[actix::test]
async fn a_replaced_time_limit_counts_from_its_own_call() {
    tokio::time::pause();
    let start = Instant::now();
    let mut flow = Flow::new();
    for seconds in [2, 5, 1] {
        flow.add(move |asi, ()| asi.set_timeout(Duration::from_secs(seconds)))
            .on_error(|asi, _| asi.success(()));
    }
    start_flow::<()>(flow).await.expect("each limit is recovered");
    assert_eq!(start.elapsed().as_secs(), 8);
}

#[actix::test]
async fn dropping_the_handle_cancels_the_flow_and_detaching_does_not() {
    for detached in [true, false] {
        let slot = Rc::default();
        let (told, tells) = oneshot::channel();
        let mut flow = waiting(&slot);
        flow.state_mut().set("guard", OnDrop(Some(told)));
        let handle: FlowHandle = start_flow(flow);
        let completion = slot.borrow_mut().take().expect("the flow waits");
        if detached {
            handle.detach();
            tokio::task::yield_now().await;
            completion.success(()).expect("it still waits");
        } else {
            drop(handle);
        }
        tells.await.expect("the flow is dropped after its end");
        assert!(!completion.is_valid());
    }
}

#[actix::test]
async fn cancel_runs_cancel_handlers_and_no_error_handlers() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let (outer, inner, error) = (Rc::clone(&log), Rc::clone(&log), Rc::clone(&log));
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.set_cancel(move |_| outer.borrow_mut().push("outer"));
        asi.add(move |asi, ()| asi.set_cancel(move |_| inner.borrow_mut().push("inner")));
    })
    .on_error(move |_, _| error.borrow_mut().push("error"));
    let handle: FlowHandle = start_flow(flow);
    handle.cancel();
    assert!(log.borrow().is_empty(), "it cancels on its event loop");
    assert!(handle.await.is_err());
    assert_eq!(*log.borrow(), ["inner", "outer"]);
}

#[actix::test]
async fn a_step_can_cancel_its_own_flow() {
    for by_canceller in [true, false] {
        let own: Rc<RefCell<Option<FlowHandle>>> = Rc::default();
        let (inside, steps) = (Rc::clone(&own), Rc::new(Cell::new(0)));
        let (first, second) = (Rc::clone(&steps), Rc::clone(&steps));
        let mut flow = Flow::new();
        flow.add(move |_, ()| {
            first.set(1);
            let own = inside.borrow();
            let handle = own.as_ref().expect("it was spawned before");
            if by_canceller { handle.canceller().cancel() } else { handle.cancel() }
        });
        flow.add(move |_, ()| second.set(2));
        own.replace(Some(spawn_flow(flow)));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let handle = own.take().expect("it is here");
        assert!(handle.await.is_err(), "it was cancelled");
        assert_eq!(steps.get(), 1, "no further step runs");
    }
}

/// How to end a flow that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Cancel,
    Drop,
    Deadline,
}

#[actix::test]
async fn what_a_cancel_handler_launches_runs_without_the_deadline_that_passed() {
    for by in [By::Cancel, By::Drop, By::Deadline] {
        tokio::time::pause();
        let (told, tells) = oneshot::channel();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_cancel(move |asi| {
                let mut refund = asi.new_instance();
                refund.steps().sleep(Duration::from_secs(60));
                refund.add(move |asi, ()| {
                    assert_eq!(asi.remaining(), None);
                    told.send(()).expect("the test waits");
                });
                asi.launch(refund);
            });
        });
        let handle: FlowHandle = start_flow(flow.within(Duration::from_secs(1)));
        match by {
            By::Cancel => handle.cancel(),
            By::Drop => drop(handle),
            By::Deadline => drop(handle.await.expect_err("it takes too long")),
        }
        tells.await.unwrap_or_else(|_| panic!("the refund was lost by {by:?}"));
        tokio::time::resume();
    }
}

#[actix::test]
async fn the_address_of_a_flow_inspects_and_cancels_it_from_another_arbiter() {
    let slot = Rc::default();
    let handle: FlowHandle = start_flow(waiting(&slot));
    let address = handle.address();
    assert_eq!(address, handle.address());
    let arbiter = Arbiter::new();
    let (tell, told) = oneshot::channel();
    arbiter.spawn(async move {
        let stack = address.send(Inspect).await.expect("the flow lives");
        let names: Vec<_> = stack.waits[0].stack.iter().map(|step| step.name()).collect();
        let cancelled = address.send(Cancel).await;
        // the test may have failed meanwhile
        let _ = tell.send((names, cancelled.is_ok()));
    });
    assert!(handle.await.is_err());
    assert_eq!(told.await.expect("it answers"), (vec![Some("wait")], true));
    arbiter.stop();
    arbiter.join().expect("no panic");
}

#[actix::test]
async fn a_panic_in_a_step_or_a_destructor_ends_the_flow_and_nothing_else() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let mut flow = Flow::new();
    flow.add(|_, ()| {
        panic!("in a step");
    });
    let error = start_flow::<()>(flow).await.expect_err("it panics");
    assert_eq!(error.panic_message(), Some("in a step"));

    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.stack(Bomb);
    });
    let error = start_flow::<()>(flow).await.expect_err("it panics");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);

    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.success(1));
    assert_eq!(start_flow::<i32>(flow).await.expect("the arbiter goes on"), 1);
}

#[actix::test]
async fn an_endless_loop_lets_others_on_the_arbiter_run() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.make_loop(|_| {});
    });
    let handle: FlowHandle = start_flow(flow);
    let mut other = Flow::new();
    other.add(|asi, ()| asi.success(1));
    assert_eq!(spawn_flow::<i32>(other).await.expect("it has its turn"), 1);
    handle.cancel();
    assert!(handle.await.is_err());
}

#[actix::test]
async fn a_launched_flow_runs_on_its_own() {
    let (tell, told) = oneshot::channel();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let mut child = asi.new_instance();
        child.await_(async { Ok::<_, std::io::Error>(()) });
        child.add(move |_, ()| {
            // the test may have failed meanwhile
            let _ = tell.send(());
        });
        asi.launch(child);
        asi.error("Failed", ())
    });
    assert!(start_flow::<()>(flow).await.is_err());
    told.await.expect("the child runs to its end");
}

#[actix::test]
async fn a_flow_can_launch_its_successor_for_ever() {
    fn nth(flow: &mut Flow, left: u32, tell: oneshot::Sender<()>) {
        flow.add(move |asi, ()| match left {
            // the test may have failed meanwhile
            0 => drop(tell.send(())),
            _ => {
                let mut next = asi.new_instance();
                nth(&mut next, left - 1, tell);
                asi.launch(next);
            }
        });
    }
    let (tell, told) = oneshot::channel();
    let mut flow = Flow::new();
    nth(&mut flow, 20_000, tell);
    start_flow::<()>(flow).await.expect("it launches the next one");
    told.await.expect("the last one tells");
}

#[actix::test]
async fn a_handle_says_where_its_flow_is_until_it_is_over() {
    let slot = Rc::default();
    let handle: FlowHandle = start_flow(waiting(&slot));
    let names = |stack: asyncsteps_actors::flow::Stack| -> Vec<_> {
        stack.waits.iter().flat_map(|wait| wait.stack.iter().map(|step| step.name())).collect()
    };
    assert_eq!(names(handle.stack()), [Some("wait")]);
    let said = handle.stack().to_string();
    assert!(said.contains("`wait` at ") && said.contains("waits for a completion"), "{said}");
    let completion = slot.borrow_mut().take().expect("the flow waits");
    completion.success(()).expect("it waits");
    let address = handle.address();
    handle.await.expect("it succeeds");
    let over = address.send(Inspect).await.expect("the actor outlives its flow");
    assert!(names(over).is_empty());
    address.send(Cancel).await.expect("which does nothing");
}

#[actix::test]
async fn a_template_is_started_with_the_arguments_of_its_first_step() {
    let divide = Template::build(|asi| {
        asi.add(|asi, (a, b): (i32, i32)| asi.success(a / b));
    });
    assert_eq!(start_flow::<i32>((&divide, (42, 6))).await.expect("it succeeds"), 7);
    let error = spawn_flow::<i32>((&divide, (1, 0))).await.expect_err("it panics");
    assert!(error.panic_message().is_some());
    let error = start_flow::<i32>(&divide).await.expect_err("there are none");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
}

#[test]
fn an_arbiter_that_ends_cancels_its_flows() {
    let (tell, told) = std::sync::mpsc::channel();
    let system = actix_rt::System::new();
    let arbiter = Arbiter::new();
    let (started, starts) = std::sync::mpsc::channel();
    arbiter.spawn_fn(move || {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_cancel(move |_| {
                // the test may have failed meanwhile
                let _ = tell.send("cancelled");
            });
        });
        start_flow::<()>(flow).detach();
        let _ = started.send(());
    });
    starts.recv().expect("the flow is started");
    arbiter.stop();
    arbiter.join().expect("no panic");
    assert_eq!(told.recv(), Ok("cancelled"));
    drop(system);
}
