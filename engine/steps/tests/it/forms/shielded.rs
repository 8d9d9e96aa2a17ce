//! Steps that nothing outside cancels (FTN12 §1.3).

use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{Error, Flow, Retry, RunContext, Template, Undo, codes, sim};

use crate::forms::support::{Log, ms, now, pause, run, tool};

#[test]
fn a_shielded_step_gives_its_result_and_its_error() {
    let template = Template::build(|asi| {
        asi.run_with(async |cx: RunContext, n: i32| {
            if cx.attempt < 3 {
                Err(Error::new("Flaky"))?;
            }
            Ok((n, cx.attempt))
        })
        .shielded()
        .retry(Retry::attempts(3).backoff(ms(10)).factor(1).on_code("Flaky"));
    });
    let mut flow = template.flow();
    flow.pass(7);
    let (result, took) = run::<(i32, u32)>(flow);
    assert_eq!((result.expect("the third time"), took), ((7, 3), 20));
}

#[test]
fn what_ends_the_step_from_outside_does_not_cut_its_body() {
    for ending in ["cancel", "drop", "timeout", "branch"] {
        let (tool, log) = (tool(), Log::default());
        let (clock, ends) = (tool.clone(), log.clone());
        let mut flow = Flow::new();
        let body = async move |()| {
            pause(&clock, ms(100)).await;
            ends.add("done");
            Ok(())
        };
        if ending == "branch" {
            flow.parallel(move |p| {
                p.run(body).shielded();
                p.add(|asi, ()| {
                    asi.sleep(ms(10));
                    asi.error_step(Error::new("Fails"));
                });
            });
        } else {
            flow.add(move |asi, ()| {
                asi.run(body).shielded();
            })
            .timeout(ms(if ending == "timeout" { 10 } else { 1000 }));
        }
        let mut promise = flow.promise::<(), _>(&tool);
        let canceller = promise.canceller();
        let (clock, ended) = (tool.clone(), log.clone());
        let task = tool.spawn(async move {
            let failed = promise.await.is_err();
            ended.add(format_args!("{}:{failed}", now(&clock)));
        });
        let stop = tool.clone();
        tool.deferred(ms(10), move || match ending {
            "cancel" => canceller.cancel(),
            "drop" => stop.cancel(&task),
            _ => {}
        });
        let clock = tool.clone();
        let _ = tool.complete(Box::pin(async move { pause(&clock, ms(500)).await }));
        let expected = if ending == "drop" { "done" } else { "10:true done" };
        assert_eq!(log.take(), expected, "{ending}");
    }
}

#[test]
fn its_own_limit_cuts_it_and_there_always_is_one() {
    for (limit, expected) in [(Some(ms(20)), 20), (None, 30_000)] {
        let mut flow = Flow::new();
        let mut step = flow.run(async |()| std::future::pending::<Result<(), _>>().await);
        step.shielded();
        if let Some(limit) = limit {
            step.timeout(limit);
        }
        let (result, took) = run::<()>(flow);
        assert_eq!((result.expect_err("cut").code(), took), (codes::TIMEOUT, expected));
    }
}

#[test]
fn a_shielded_step_can_be_undone() {
    let (tool, log) = (tool(), Log::default());
    let undoes = log.clone();
    let mut flow = Flow::new();
    flow.run(async |()| Ok(7)).shielded().undo(async move |outcome: Undo<&i32>| {
        undoes.add(format_args!("{outcome:?}"));
        Ok(())
    });
    flow.error_step(Error::new("Fails"));
    let promise = flow.promise::<(), _>(&tool);
    assert!(tool.complete(promise).expect("it ends").is_err());
    assert_eq!(log.take(), "Done(7)");
}

#[test]
fn a_shielded_step_that_is_cut_before_its_flow_begins_is_undone() {
    sim::check(0..20, |sim| {
        let (of_body, of_undo) = (Log::default(), Log::default());
        let (body, undoes) = (of_body.clone(), of_undo.clone());
        let mut flow = Flow::new();
        flow.parallel(move |branches| {
            branches
                .run(async move |()| {
                    body.add("charge");
                    Ok(())
                })
                .shielded()
                .undo(async move |_: Undo<&()>| {
                    undoes.add("refund");
                    Ok(())
                });
            branches.run(async |()| Err::<(), _>(Error::new("Declined").into()));
        });
        let started = sim.start(flow);
        sim.run();
        started.assert_error("Declined");
        assert_eq!(of_body.take().is_empty(), of_undo.take().is_empty());
    });
}
