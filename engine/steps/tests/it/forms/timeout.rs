//! Hard time limits (FTN12 §1.3).

use std::future::pending;

use asyncsteps_core::{Flow, Template, codes};

use crate::forms::support::{Dropped, Log, fails, ms, run};

#[test]
fn what_is_inside_is_cancelled_and_its_error_handlers_see_nothing() {
    let log = Log::default();
    let (inner, future, own) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let cancelled = inner.clone();
        asi.add(move |asi, ()| {
            asi.set_cancel(move |_| cancelled.add("cancel"));
            asi.run(async move |()| {
                let _held = Dropped(future.clone(), "future");
                pending::<()>().await;
                Ok(())
            });
        })
        .on_error(move |asi, _| {
            inner.add("inner handler");
            asi.success(())
        });
    })
    .timeout(ms(30))
    .named("limited")
    .on_error(move |asi, error| {
        let place = error.location().and_then(|place| place.name());
        own.add(format_args!("{} {:?} {:?}", error.code(), error.limit(), place));
        asi.success(())
    });
    let (result, took) = run::<()>(flow);
    result.expect("the step itself recovers");
    assert_eq!(took, 30);
    assert_eq!(log.take(), "-future cancel Timeout Some(30ms) Some(\"limited\")");
}

#[test]
fn an_outer_limit_is_sharp_whatever_handlers_inside_do() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.make_loop(|asi| {
            asi.add(|asi, ()| asi.set_timeout(ms(300))).on_error(|asi, error| {
                assert_eq!(error.code(), codes::TIMEOUT);
                asi.success(())
            });
        });
    })
    .timeout(ms(500));
    assert_eq!(fails(flow), ("Timeout".to_owned(), 500));
}

#[test]
fn a_step_that_completes_has_no_limit_any_more() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.success(1)).timeout(ms(0));
    flow.run(async |n: i32| Ok(n + 1)).timeout(ms(0));
    flow.add(|_, _: i32| {}).timeout(ms(10)); // implicit success
    flow.add(|asi, ()| {
        asi.sleep(ms(50));
    });
    let (result, took) = run::<()>(flow);
    result.expect("each step was in time");
    assert_eq!(took, 50);
}

#[test]
fn branches_are_cancelled_and_a_branch_can_be_limited() {
    let log = Log::default();
    let own = log.clone();
    let mut flow = Flow::new();
    flow.parallel(move |p| {
        for name in ["one", "two"] {
            let log = own.clone();
            p.add(move |asi, ()| {
                asi.set_cancel(move |_| log.add(name));
                asi.wait_only();
            });
        }
    })
    .timeout(ms(20));
    assert_eq!(fails(flow), ("Timeout".to_owned(), 20));
    assert_eq!(log.take(), "one two");

    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(|asi, ()| asi.wait_only()).timeout(ms(5)).on_error(|asi, _| asi.success(()));
        p.run(async |()| pending().await).timeout(ms(9)).on_error(|asi, _| asi.success(()));
    });
    let (result, took) = run::<()>(flow);
    result.expect("each branch recovers");
    assert_eq!(took, 9);
}

#[test]
fn a_step_can_have_both_kinds_of_limits() {
    for (hard, soft, expected) in [(10, 20, "10ms"), (20, 10, "10ms")] {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| asi.set_timeout(ms(soft)))
            .timeout(ms(hard))
            .on_error(|asi, error| asi.success(format!("{:?}", error.limit().unwrap_or_default())));
        let (limit, took) = run::<String>(flow);
        assert_eq!((limit.expect("it recovers"), took), (expected.to_owned(), 10));
    }
}

#[test]
fn steps_of_templates_are_limited_too() {
    let template = Template::build(|asi| {
        asi.run(async |()| pending::<Result<(), _>>().await)
            .timeout(ms(7))
            .on_error(|asi, error| asi.success(error.code().to_owned()));
    });
    for _ in 0..2 {
        let (code, took) = run::<String>(template.flow());
        assert_eq!((code.expect("it recovers"), took), ("Timeout".to_owned(), 7));
    }
}
