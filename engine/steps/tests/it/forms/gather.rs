//! Steps that do several things at once and give their results (FTN12 §1.13).

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{Error, Flow, Template};

use crate::forms::support::{Dropped, Log, ms, now, pause, run, tool};

#[test]
fn results_come_in_the_order_of_the_items_and_so_many_run_at_once() {
    for (at_once, took) in [(0, 60), (1, 60), (2, 30), (3, 30), (9, 30)] {
        let tool = tool();
        let (clock, running) = (tool.clone(), Rc::new(Cell::new((0, 0))));
        let most = Rc::clone(&running);
        let mut flow = Flow::new();
        flow.steps().each(vec![30u64, 20, 10], at_once, async move |time| {
            let (now, most) = running.get();
            running.set((now + 1, most.max(now + 1)));
            pause(&clock, ms(time)).await;
            let (now, most) = running.get();
            running.set((now - 1, most));
            Ok(time * 2)
        });
        let promise = flow.promise::<Vec<u64>, _>(&tool);
        let results = tool.complete(promise).expect("it ends").expect("nothing fails");
        assert_eq!((results, now(&tool)), (vec![60, 40, 20], took), "{at_once} at once");
        assert_eq!(most.get(), (0, at_once.clamp(1, 3)));
    }
}

#[test]
fn the_first_error_drops_the_others_unless_all_results_are_asked_for() {
    let log = Log::default();
    for all in [false, true] {
        let (tool, log) = (tool(), log.clone());
        let clock = tool.clone();
        let body = async move |number: u64| {
            let _held = Dropped(log.clone(), ["zero", "one", "two"][usize::try_from(number)?]);
            pause(&clock, ms(number * 10)).await;
            if number == 1 {
                Err(Error::new("Odd"))?;
            }
            Ok(number)
        };
        let mut flow = Flow::new();
        if all {
            flow.steps().each_result([0, 1, 2], 3, body);
            flow.add(|asi, results: Vec<Result<u64, Error>>| {
                let codes = results.iter().map(|one| one.as_ref().map_err(Error::code).copied());
                asi.success(codes.map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" "))
            });
        } else {
            flow.steps()
                .each([0, 1, 2], 3, body)
                .on_error(|asi, error| asi.success(error.code().to_owned()));
        }
        let promise = flow.promise::<String, _>(&tool);
        let text = tool.complete(promise).expect("it ends").expect("it recovers");
        let expected = if all { ("Ok(0) Err(\"Odd\") Ok(2)", 20) } else { ("Odd", 10) };
        assert_eq!((&*text, now(&tool)), expected);
    }
    assert_eq!(log.take(), "-zero -one -two -zero -one -two");
}

#[test]
fn the_first_that_succeeds_wins_a_race() {
    let race = |items: Vec<(u64, bool)>| {
        let tool = tool();
        let clock = tool.clone();
        let mut flow = Flow::new();
        flow.steps().race(items, async move |(time, succeeds)| {
            pause(&clock, ms(time)).await;
            if succeeds { Ok(time) } else { Err(Error::new(format!("Late{time}")).into()) }
        });
        let promise = flow.promise::<u64, _>(&tool);
        let ended = tool.complete(promise).expect("it ends");
        (ended.map_err(|error| error.code().to_owned()), now(&tool))
    };
    assert_eq!(race(vec![(30, true), (10, false), (20, true)]), (Ok(20), 20));
    assert_eq!(race(vec![(10, false), (20, false)]), (Err("Late20".to_owned()), 20));
    assert_eq!(race(Vec::new()), (Err("InternalError".to_owned()), 0));
}

#[test]
fn joined_results_are_typed() {
    let template = Template::build(|asi| {
        asi.join(async || Ok("Ada"), async || Ok(36u32));
        asi.add(|asi, (name, age): (&str, u32)| asi.success(format!("{name} {age}")));
        asi.join3(async || Ok(1), async || Ok('b'), async || Ok("c")).on_error(|_, _| {});
        asi.add(|asi, (a, b, c): (i32, char, &str)| asi.success(format!("{a}{b}{c}")));
    });
    assert_eq!(run::<String>(template.flow()).0.expect("nothing fails"), "1bc");

    let mut flow = Flow::new();
    flow.steps().join(
        async || std::future::pending::<Result<(), _>>().await,
        async || Err::<(), _>(Error::new("Other").into()),
    );
    assert_eq!(run::<()>(flow).0.expect_err("it fails").code(), "Other");
}

#[test]
fn a_thousand_at_once_are_polled_when_they_are_woken() {
    let (tool, polls) = (tool(), Rc::new(Cell::new(0)));
    let (clock, counted) = (tool.clone(), Rc::clone(&polls));
    let mut flow = Flow::new();
    flow.steps().each(0..1000u64, 1000, async move |number| {
        let mut wait = Box::pin(pause(&clock, ms(number)));
        poll_fn(|cx| {
            counted.set(counted.get() + 1);
            wait.as_mut().poll(cx)
        })
        .await;
        Ok(number)
    });
    let promise = flow.promise::<Vec<u64>, _>(&tool);
    let results = tool.complete(promise).expect("it ends").expect("nothing fails");
    assert!(results.into_iter().eq(0..1000));
    assert!(polls.get() < 3000, "{} polls", polls.get());
}

#[test]
fn a_flow_has_the_same_methods_as_its_steps() {
    let mut flow = Flow::new();
    flow.sleep(ms(5));
    flow.repeat(2, |asi, _| {
        asi.sleep(ms(5));
    });
    flow.join(async || Ok(1), async || Ok(2));
    flow.run(async |(one, other): (i32, i32)| {
        assert_eq!(one + other, 3);
        Ok(())
    });
    flow.each([1, 2], 2, async |n| Ok(n));
    assert_eq!(run::<Vec<i32>>(flow).0.expect("it ends"), [1, 2]);
}

#[test]
fn a_thing_that_wakes_itself_lets_other_flows_run() {
    for at_once in [1, 2] {
        let tool = tool();
        let is_set = Rc::new(Cell::new(false));
        let (waits, sets) = (Rc::clone(&is_set), Rc::clone(&is_set));
        let polls = Cell::new(0);
        let mut flow = Flow::new();
        flow.steps().each([1, 2], at_once, async move |_| {
            let looks = |cx: &mut Context<'_>| {
                polls.set(polls.get() + 1);
                assert!(polls.get() < 10_000, "the other flow never runs");
                cx.waker().wake_by_ref();
                if waits.get() { Poll::Ready(()) } else { Poll::Pending }
            };
            poll_fn(looks).await;
            Ok(())
        });
        let mut other = Flow::new();
        other.add(move |_, ()| sets.set(true));
        let (promise, other) = (flow.promise::<Vec<()>, _>(&tool), other.promise::<(), _>(&tool));
        tool.spawn(async move { drop(other.await) });
        let results = tool.complete(promise).expect("it ends");
        assert_eq!(results.expect("nothing fails").len(), 2, "{at_once} at once");
    }
}
