//! Values made with `stack` live as long as their step and are dropped once, in reverse order
//! (FTN12 §1.14).

use asyncsteps_core::{Flow, run_to_end};

use crate::flows::support::{Dropped, Log, code, wait};

#[test]
fn values_are_dropped_in_reverse_order_when_their_step_ends() {
    let log = Log::default();
    let (body, sub, next) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let _ = asi.stack(Dropped(body.clone(), "1"));
        let _ = asi.stack(Dropped(body, "2"));
        asi.add(move |asi, ()| {
            let _ = asi.stack(Dropped(sub.clone(), "3"));
            sub.add("sub");
        });
    });
    flow.add(move |_, ()| next.add("next"));
    run_to_end::<()>(flow).expect("nothing fails");
    assert_eq!(log.take(), "sub -3 -2 -1 next");
}

#[test]
fn values_of_a_loop_body_end_with_the_iteration() {
    let log = Log::default();
    let body = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(2, move |asi, i| {
            let value = asi.stack(i);
            let _ = asi.stack(Dropped(body.clone(), "value"));
            let body = body.clone();
            if i == 1 {
                asi.add(move |asi, ()| body.add(asi[value]));
            }
        });
    });
    run_to_end::<()>(flow).expect("nothing fails");
    assert_eq!(log.take(), "-value 1 -value");
}

#[test]
fn values_are_dropped_after_the_error_handler_of_their_step() {
    let log = Log::default();
    let (body, handler) = (log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let _ = asi.stack(Dropped(body, "value"));
        asi.error("MyError", ())
    })
    .on_error(move |_, _| handler.add("handler"));
    assert_eq!(code(flow), "MyError");
    assert_eq!(log.take(), "handler -value");
}

#[test]
fn values_live_as_long_as_the_steps_that_replace_theirs() {
    let log = Log::default();
    let (body, handler, next) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let _ = asi.stack(Dropped(body, "body"));
        asi.error("MyError", ())
    })
    .on_error(move |asi, _| {
        let _ = asi.stack(Dropped(handler.clone(), "handler"));
        let count = asi.stack(1);
        asi.add(move |asi, ()| asi[count] += 1);
        asi.add(move |asi, ()| {
            handler.add("replaced");
            asi.success(asi[count])
        });
    });
    flow.add(move |asi, n: i32| {
        next.add("next");
        asi.success(n)
    });
    assert_eq!(run_to_end::<i32>(flow).expect("recovered"), 2);
    assert_eq!(log.take(), "replaced -handler -body next");
}

#[test]
fn a_handler_is_not_called_again_for_the_steps_that_it_added() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let _ = asi.stack(());
        asi.error("First", ())
    })
    .on_error(|asi, error| {
        assert_eq!(error.code(), "First");
        asi.add(|asi, ()| asi.error("Second", ()));
    });
    assert_eq!(code(flow), "Second");
}

#[test]
fn a_name_gives_nothing_after_its_step() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let value = asi.stack(7);
        asi.state_mut().set("name", value);
        assert_eq!(asi.value(value), Some(&7));
    });
    flow.add(|asi, ()| {
        let name = *asi.state().get::<asyncsteps_core::Stack<i32>>("name").expect("it was set");
        let _ = asi.stack(8);
        assert_eq!(asi.value(name), None);
        assert_eq!(asi.value_mut(name), None);
        asi.success(asi[name])
    });
    let error = run_to_end::<i32>(flow).expect_err("indexing panics");
    let message = "a value made with `stack` was used after its step ended";
    assert_eq!(error.panic_message(), Some(message));
}

#[test]
fn values_are_dropped_when_the_flow_is() {
    let log = Log::default();
    let body = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let _ = asi.stack(Dropped(body.clone(), "outer"));
        asi.parallel(move |p| {
            p.add(move |asi, ()| {
                let _ = asi.stack(Dropped(body, "inner"));
                asi.wait_only();
            });
        });
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    drop(execution);
    assert_eq!(log.take(), "-inner -outer");
}
