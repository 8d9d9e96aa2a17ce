//! Steps that are async closures (FTN12 §1.13).

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

use asyncsteps_core::{
    Arg, Error, Flow, Observer, Progress, StepEnd, StepRef, Template, Time, codes, run_to_end,
};

use crate::forms::support::{Dropped, Log, ms, now, pause, run, tool};

/// A value that can only be lent.
struct Book(Vec<&'static str>);

#[test]
fn a_captured_value_is_lent_to_the_future_and_not_cloned() {
    let book = Book(vec!["zero", "one"]);
    let mut flow = Flow::new();
    flow.run(async |()| Ok(1usize));
    flow.run(async move |n: usize| {
        poll_fn(|_| Poll::Ready(())).await;
        let word: &str = book.0[n];
        Ok(word)
    });
    assert_eq!(run_to_end::<&str>(flow).expect("nothing fails"), "one");
}

#[test]
fn a_template_lends_to_many_flows() {
    let book = Book(vec!["zero", "one", "two"]);
    let template = Template::build(|asi| {
        asi.run(async move |n: usize| {
            poll_fn(|_| Poll::Ready(())).await;
            Ok(book.0.get(n).copied())
        });
    });
    for (n, word) in [(0, Some("zero")), (2, Some("two")), (3, None)] {
        let mut flow = template.flow();
        flow.pass(n);
        assert_eq!(run_to_end::<Option<&str>>(flow).expect("nothing fails"), word);
    }
}

#[test]
fn a_question_mark_takes_any_error_and_keeps_a_code() {
    let code = |flow: Flow| run_to_end::<()>(flow).expect_err("it fails").code().to_owned();
    let mut flow = Flow::new();
    flow.run(async |()| Err::<(), _>(Error::new("OutOfStock").into()));
    flow.run(async |()| Ok(()));
    assert_eq!(code(flow), "OutOfStock");

    let mut flow = Flow::new();
    flow.run(async |()| {
        let _: u8 = "x".parse()?;
        Ok(())
    });
    let error = run_to_end::<()>(flow).expect_err("it fails");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    assert!(error.find::<std::num::ParseIntError>().is_some());
    assert!(error.location().is_some_and(|place| place.file().ends_with("run.rs")));

    let mut flow = Flow::new();
    flow.run(async |()| Err::<(), _>("text".into())).on_error(|asi, error| {
        let text = error.find::<Error>().and_then(|_| std::error::Error::source(error));
        asi.success(text.map(ToString::to_string))
    });
    flow.add(|asi, text: Option<String>| {
        assert_eq!(text.as_deref(), Some("text"));
        asi.success(())
    });
    run_to_end::<()>(flow).expect("the handler recovers");
}

#[test]
fn async_closures_are_steps_inside_of_steps_loops_and_branches() {
    let log = Log::default();
    let (one, two, three) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(2, move |asi, i| {
            let log = one.clone();
            asi.run(async move |()| {
                log.add(format_args!("loop{i}"));
                Ok(())
            });
        });
        asi.parallel(move |p| {
            p.run(async move |()| {
                two.add("left");
                Ok(())
            });
            p.run(async move |()| {
                three.add("right");
                Ok(())
            });
        });
        asi.run(async |()| Ok("end"));
    });
    assert_eq!(run_to_end::<&str>(flow).expect("nothing fails"), "end");
    assert_eq!(log.take(), "loop0 loop1 left right");
}

#[test]
fn a_template_has_loops_pauses_and_failing_steps() {
    let template = Template::build(|asi| {
        asi.state().set("sum", 0usize);
        asi.repeat(3, |asi, i| *asi.state_mut().get_mut::<usize>("sum").expect("set") += i);
        asi.for_each(vec![10, 20], |asi, _, n: usize| {
            *asi.state_mut().get_mut::<usize>("sum").expect("set") += n;
        });
        asi.make_loop(|asi| {
            asi.make_loop(|asi| asi.break_loop("outer"));
        })
        .label("outer");
        asi.sleep(ms(5));
        asi.parallel(|p| {
            p.run(async |()| Ok(()));
            p.repeat(2, |asi, _| *asi.state_mut().get_mut::<usize>("sum").expect("set") += 100);
        });
        asi.error_step(Error::new("Planned")).on_error(|asi, error| {
            assert_eq!(error.code(), "Planned");
            let sum = asi.state().get::<usize>("sum").copied();
            asi.success(sum)
        });
    });
    for _ in 0..2 {
        let (sum, took) = run::<Option<usize>>(template.flow());
        assert_eq!((sum.expect("it recovers"), took), (Some(233), 5));
    }
}

#[test]
fn the_future_is_polled_with_the_waker_of_the_host() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let slot = Arc::new(Mutex::new(None::<Waker>));
    let (seen, polls) = (Arc::clone(&slot), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&polls);
    let mut flow = Flow::new();
    flow.run(async move |()| {
        poll_fn(|cx| {
            counted.set(counted.get() + 1);
            *seen.lock().expect("not poisoned") = Some(cx.waker().clone());
            if counted.get() < 3 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        Ok(7)
    });
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let host = Waker::from(Arc::clone(&woken));
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    // a host may change its waker: the future learns the new one
    assert!(matches!(execution.run(Time::ZERO, &host), Progress::Waiting));
    let waker = slot.lock().expect("not poisoned").take().expect("it was polled");
    assert!(waker.will_wake(&host));
    waker.wake();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(matches!(execution.run(Time::ZERO, &host), Progress::Done(_)));
    assert_eq!(polls.get(), 3);
}

#[test]
fn a_body_is_polled_first_by_the_callback_that_makes_its_future() {
    struct Callbacks(Rc<Cell<u32>>);
    impl Observer for Callbacks {
        fn begin(&mut self, _: StepRef) {}
        fn enter(&mut self, _: StepRef) {
            self.0.set(self.0.get() + 1);
        }
        fn leave(&mut self, _: StepRef) {}
        fn end(&mut self, _: StepRef, _: StepEnd<'_>) {}
        fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
    }
    let template = Template::build(|asi| {
        asi.run(async |()| Ok(1));
    });
    let mut added = Flow::new();
    added.run(async |()| Ok(1));
    for mut flow in [template.flow(), added] {
        let callbacks = Rc::new(Cell::new(0));
        flow.observe(Callbacks(Rc::clone(&callbacks)));
        assert_eq!(run_to_end::<i32>(flow).expect("nothing fails"), 1);
        assert_eq!(callbacks.get(), 1);
    }
}

#[test]
fn in_branches_only_the_future_that_was_woken_is_polled() {
    let tool = tool();
    let log = Log::default();
    let mut flow = Flow::new();
    let (t, l) = (tool.clone(), log.clone());
    flow.parallel(move |p| {
        for (name, time) in [("slow", 20), ("fast", 10)] {
            let (tool, log) = (t.clone(), l.clone());
            p.run(async move |()| {
                let mut wait = Box::pin(pause(&tool, ms(time)));
                poll_fn(|cx| {
                    log.add(name);
                    wait.as_mut().poll(cx)
                })
                .await;
                Ok(())
            });
        }
    });
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect("nothing fails");
    assert_eq!((now(&tool), &*log.take()), (20, "slow fast fast slow"));
}

#[test]
fn a_future_is_dropped_before_the_values_that_it_borrows_from() {
    let log = Log::default();
    let (captured, inside) = (Dropped(log.clone(), "closure"), log.clone());
    let mut flow = Flow::new();
    flow.run(async move |()| {
        let _held = Dropped(inside.clone(), "future");
        let _lent: &Dropped = &captured;
        pending::<()>().await;
        Ok(())
    });
    let mut execution = flow.execute();
    assert!(matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting));
    execution.cancel();
    assert_eq!(log.take(), "-future -closure");
}

#[test]
fn any_type_passes_between_async_closures() {
    struct Order(Rc<str>);
    impl Arg for Order {}
    let mut flow = Flow::new();
    flow.run(async |()| Ok((Order("tea".into()), 2)));
    flow.run(async |(order, count): (Order, u64)| Ok(format!("{count} {}", order.0)));
    assert_eq!(run_to_end::<String>(flow).expect("nothing fails"), "2 tea");
}
