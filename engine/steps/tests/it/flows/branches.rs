//! A branch can be any kind of step, and gives no result (FTN12 §2.2.1 `parallel`).

use std::future::pending;
use std::time::Duration;

use asyncsteps_core::sync::{ISync, Mutex, Section, mutex};
use asyncsteps_core::{AsyncSteps, Error, Flow, StepResult, Template, codes};

use crate::flows::support::{Dropped, Log, code, end, wait};

fn pause(asi: &mut AsyncSteps, ms: u64) {
    asi.sleep(Duration::from_millis(ms));
}

#[test]
fn loops_futures_sections_and_parallel_steps_are_branches() {
    let (log, mutex) = (Log::default(), Mutex::default());
    let mut flow = Flow::new();
    let (list, count, forever, section, nested, future) =
        (log.clone(), log.clone(), log.clone(), log.clone(), log.clone(), log.clone());
    flow.parallel(|p| {
        p.for_each(["a", "b"], move |asi, _, item| {
            list.add(item);
            pause(asi, 10);
        });
        p.repeat(2, move |asi, i| {
            count.add(i);
            pause(asi, 5);
        });
        p.make_loop(move |asi| {
            forever.add("loop");
            asi.break_loop("ONCE")
        })
        .label("ONCE");
        p.sync(&mutex, move |_, ()| section.add("section"));
        p.parallel(|p| {
            for name in ["left", "right"] {
                let log = nested.clone();
                p.add(move |_, ()| log.add(name));
            }
        });
        p.await_(async move {
            future.add("future");
            Ok::<(), Error>(())
        });
    });
    flow.success_step("over");
    let mut flow = flow.execute();
    wait(&mut flow, 0);
    assert_eq!(log.take(), "a 0 loop section future left right");
    wait(&mut flow, 5);
    assert_eq!(log.take(), "1");
    wait(&mut flow, 10);
    assert_eq!(log.take(), "b");
    assert_eq!(end::<String>(&mut flow, 20).expect("nothing fails"), "over");
    assert_eq!(mutex.holders(), 0);
}

#[test]
fn branches_of_all_kinds_are_cancelled_with_the_first_error() {
    let log = Log::default();
    let (looped, nested, awaited) = (log.clone(), log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.make_loop(move |asi| {
            let log = looped.clone();
            asi.set_cancel(move |_| log.add("loop"));
        });
        p.parallel(|p| {
            p.add(move |asi, ()| asi.set_cancel(move |_| nested.add("nested")));
        });
        let dropped = Dropped(awaited, "future");
        p.await_(async move {
            let _dropped = dropped;
            pending::<Result<(), Error>>().await
        });
        p.add(|asi, ()| {
            pause(asi, 10);
            asi.add(|asi, ()| asi.error("Lost", ()));
        });
    });
    let mut flow = flow.execute();
    wait(&mut flow, 0);
    assert_eq!(end::<()>(&mut flow, 10).expect_err("it is lost").code(), "Lost");
    assert_eq!(log.take(), "loop nested -future");
}

/// An object whose sections run at once, or as a step of their own.
#[derive(Clone, Copy, Debug)]
enum Door {
    Open,
    Later,
}

impl ISync for Door {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        match self {
            Self::Open => section.enter(asi),
            Self::Later => {
                section.add(asi);
                Ok(())
            }
        }
    }
}

#[test]
fn a_section_gives_no_result_whether_or_not_it_had_to_wait() {
    for door in [Door::Open, Door::Later] {
        let mut flow = Flow::new();
        flow.parallel(|p| {
            p.sync(&door, |asi, ()| asi.success(1));
        });
        assert_eq!(code(flow), codes::INTERNAL_ERROR, "{door:?}");
        let template = Template::build(|asi| {
            asi.parallel(|p| {
                p.parallel(|p| {
                    p.sync(&door, |asi, ()| asi.success(1));
                });
            })
            .on_error(|asi, error| {
                assert_eq!(error.code(), codes::INTERNAL_ERROR);
                asi.error("Seen", ())
            });
        });
        assert_eq!(code(template.flow()), "Seen", "{door:?}");
    }
}

#[test]
fn the_handler_of_a_section_does_not_see_a_rejection() {
    let full = Mutex::new(mutex::Options { max: 1, max_queue: Some(0) });
    let inside = full.clone();
    let log = Log::default();
    let handled = log.clone();
    let mut flow = Flow::new();
    flow.sync(&full, move |asi, ()| {
        asi.parallel(move |p| {
            p.sync(&inside, |_, ()| {}).on_error(move |_, _| handled.add("handled"));
        });
    });
    assert_eq!(code(flow), codes::DEFENSE_REJECTED);
    assert_eq!(log.take(), "");
}
