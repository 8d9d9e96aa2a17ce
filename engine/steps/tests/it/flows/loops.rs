//! The ends of loops, across levels and branches, and what loops go over (FTN12 §1.8, §2.2.4).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use asyncsteps_core::{Collection, Flow, run_to_end};

use crate::flows::support::{Dropped, Log, code, end, wait};

#[test]
fn break_and_continue_cross_parallel_steps_and_cancel_the_siblings() {
    for again in [false, true] {
        let log = Log::default();
        let mut flow = Flow::new();
        let (body, after) = (log.clone(), log.clone());
        flow.add(move |asi, ()| {
            asi.repeat(2, move |asi, i| {
                body.add(i);
                let (cancelled, first) = (body.clone(), body.clone());
                asi.parallel(move |p| {
                    p.add(move |asi, ()| asi.set_cancel(move |_| cancelled.add("cancelled")));
                    p.add(move |asi, ()| {
                        let _ = asi.stack(Dropped(first.clone(), "value"));
                        asi.set_cancel(move |_| first.add("left"));
                        asi.make_loop(move |asi| {
                            asi.parallel(move |p| {
                                p.add(move |asi, ()| {
                                    if again {
                                        asi.continue_loop("OUTER")
                                    } else {
                                        asi.break_loop("OUTER")
                                    }
                                })
                                .on_error(|_, _| unreachable!("it is no error"));
                            })
                            .on_error(|_, _| unreachable!("it is no error"));
                        });
                    });
                });
            })
            .label("OUTER");
            asi.add(move |_, ()| after.add("after"));
        });
        assert!(end::<()>(&mut flow.execute(), 0).is_ok());
        let iteration = "left -value cancelled";
        let expected = if again {
            format!("0 {iteration} 1 {iteration} after")
        } else {
            format!("0 {iteration} after")
        };
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn an_error_handler_may_end_the_loop_around_it() {
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(5, move |asi, i| {
            seen.add(i);
            asi.add(|asi, ()| asi.error("MyError", ())).on_error(move |asi, _| {
                if i < 2 { asi.continue_loop(None) } else { asi.break_loop(None) }
            });
        });
    })
    .on_error(|_, _| unreachable!("the error was handled"));
    assert!(run_to_end::<()>(flow).is_ok());
    assert_eq!(log.take(), "0 1 2");
}

#[test]
fn the_nearest_of_equal_labels_is_meant() {
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(2, move |asi, i| {
            let seen = seen.clone();
            asi.repeat(2, move |asi, k| {
                seen.add(format_args!("{i}{k}"));
                asi.break_loop("L")
            })
            .label("L");
        })
        .label("L");
    });
    assert!(run_to_end::<()>(flow).is_ok());
    assert_eq!(log.take(), "00 10");
}

#[test]
fn a_label_is_not_the_information_of_an_error() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| asi.error("MyError", "mine")).on_error(|asi, _| asi.success(()));
        asi.make_loop(|asi| asi.break_loop("L")).label("L");
        asi.add(|asi, ()| asi.success(asi.error_info().map(str::to_owned)));
    });
    assert_eq!(run_to_end::<Option<String>>(flow).expect("recovered").as_deref(), Some("mine"));
}

#[test]
fn loops_take_no_arguments_and_give_no_result() {
    let mut flow = Flow::new();
    flow.success_step(1);
    flow.add(|asi, n: i32| {
        asi.success_step(n);
        asi.repeat(0, |_, _| {});
        asi.add(|asi, args: asyncsteps_core::Args| asi.success(args.len()));
        asi.add(|asi, n: usize| {
            asi.repeat(1, |asi, _| asi.success("dropped"));
            asi.add(move |asi, args: asyncsteps_core::Args| asi.success((n, args.len())));
        });
    });
    assert_eq!(run_to_end::<(usize, usize)>(flow).expect("nothing fails"), (0, 0));
}

/// The keys and values that a loop over this collection gets.
fn entries<C>(collection: C) -> String
where
    C: Collection + 'static,
    C::Key: std::fmt::Display,
    C::Value: std::fmt::Display,
{
    let log = Log::default();
    let seen = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.for_each(collection, move |_, key, value| seen.add(format_args!("{key}={value}")));
    });
    run_to_end::<()>(flow).expect("nothing fails");
    log.take()
}

#[test]
fn for_each_goes_over_lists_by_index_and_over_maps_by_key() {
    assert_eq!(entries(vec!["a", "b"]), "0=a 1=b");
    assert_eq!(entries(["a", "b"]), "0=a 1=b");
    assert_eq!(entries(VecDeque::from(["a", "b"])), "0=a 1=b");
    assert_eq!(entries(Arc::<[i32]>::from([7, 8])), "0=7 1=8");
    assert_eq!(entries(BTreeMap::from([("z", 1), ("a", 2)])), "a=2 z=1");
    assert_eq!(entries(HashMap::from([("only", 1)])), "only=1");
    assert_eq!(entries(Vec::<i32>::new()), "");
}

#[test]
fn an_iteration_may_wait_and_fail() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.for_each([1u64, 2, 3], |asi, _, pause| {
            asi.sleep(std::time::Duration::from_millis(pause));
            asi.add(move |asi, ()| if pause == 3 { asi.error("Three", ()) } else { Ok(()) });
        });
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    wait(&mut execution, 1);
    wait(&mut execution, 3);
    assert_eq!(end::<()>(&mut execution, 6).expect_err("the last one fails").code(), "Three");
}

#[test]
fn a_cancel_handler_of_an_iteration_belongs_to_it() {
    let log = Log::default();
    let cancelled = log.clone();
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.repeat(3, move |asi, i| {
            let cancelled = cancelled.clone();
            asi.set_cancel(move |_| cancelled.add(i));
            asi.add(move |asi, ()| if i == 1 { asi.error("MyError", ()) } else { Ok(()) });
        });
    });
    assert_eq!(code(flow), "MyError");
    assert_eq!(log.take(), "1");
}
