//! What parallel branches have done is undone beside each other, as it was done (FTN12 §1.4): an undo
//! that waits for another branch does not hold that up.

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Error, Flow};

use crate::forms::support::{Log, ms, now, pause, tool};

/// How a flow ends whose branches have charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Error,
    Limit,
    HardLimit,
    Cancel,
    Drop,
}

const WAYS: [Way; 5] = [Way::Error, Way::Limit, Way::HardLimit, Way::Cancel, Way::Drop];

/// Runs the flow, ends it this way after 50 ms, and gives the log when everything is over.
fn run(tool: &Manual, log: &Log, way: Way, branches: impl FnOnce(&mut Flow)) -> String {
    let mut inner = Flow::new();
    branches(&mut inner);
    let mut flow = Flow::new();
    let mut step = flow.add(move |asi, ()| {
        if way == Way::Limit {
            asi.set_timeout(ms(50));
        }
        asi.append(inner);
    });
    if way == Way::HardLimit {
        step.timeout(ms(50));
    }
    let mut promise = flow.promise::<(), _>(tool);
    let canceller = promise.canceller();
    let task = tool.spawn(async move { drop(promise.await) });
    let stop = tool.clone();
    tool.deferred(ms(50), move || match way {
        Way::Cancel => canceller.cancel(),
        Way::Drop => stop.cancel(&task),
        Way::Error | Way::Limit | Way::HardLimit => {}
    });
    let clock = tool.clone();
    let _ = tool.complete(Box::pin(async move { pause(&clock, ms(60_000)).await }));
    log.take()
}

#[test]
fn an_undo_gets_the_lock_that_another_branch_holds_until_it_is_undone() {
    for way in WAYS {
        for newer in [true, false] {
            let (tool, log, lock) = (tool(), Log::default(), Mutex::default());
            let (clock, books, held) = (tool.clone(), log.clone(), lock.clone());
            let text = run(&tool, &log, way, move |flow| {
                flow.parallel(move |p| {
                    let (holder, writes) = (clock.clone(), books.clone());
                    p.add(move |asi, ()| {
                        asi.sleep(ms(if newer { 10 } else { 20 }));
                        let (undo_clock, undoes) = (holder.clone(), writes.clone());
                        asi.run(async |()| Ok(())).undo(async move |_| {
                            pause(&undo_clock, ms(100)).await;
                            undoes.add("holder");
                            Ok(())
                        });
                        asi.run(async |()| std::future::pending::<Result<(), _>>().await);
                    })
                    .locked(&held.clone());
                    let (waiter, waits) = (clock.clone(), books.clone());
                    p.add(move |asi, ()| {
                        asi.sleep(ms(15));
                        let (undo_clock, undoes) = (waiter.clone(), waits.clone());
                        asi.run(async |()| Ok(())).undo(async move |_| {
                            while held.holders() > 0 {
                                pause(&undo_clock, ms(1)).await;
                            }
                            undoes.add(format_args!("waiter:{}", now(&undo_clock)));
                            Ok(())
                        });
                        asi.run(async |()| std::future::pending::<Result<(), _>>().await);
                    });
                    if way == Way::Error {
                        p.add(|asi, ()| {
                            asi.sleep(ms(50));
                            asi.error_step(Error::new("Fails"));
                        });
                    }
                });
            });
            assert_eq!(text, "holder waiter:150", "{way:?}, newer: {newer}");
        }
    }
}

#[test]
fn a_branch_that_fails_waits_for_its_own_undos_only() {
    let (tool, log) = (tool(), Log::default());
    let mut flow = Flow::new();
    let (clock, books) = (tool.clone(), log.clone());
    flow.parallel(move |p| {
        for (name, fails, undo) in [("slow", 10, 200), ("fast", 20, 5)] {
            let (clock, books, handles) = (clock.clone(), books.clone(), books.clone());
            p.add(move |asi, ()| {
                let ended = clock.clone();
                asi.run(async |()| Ok(())).undo(async move |_| {
                    pause(&clock, ms(undo)).await;
                    books.add(format_args!("-{name}"));
                    Ok(())
                });
                asi.sleep(ms(fails));
                asi.error_step(Error::new("Fails"));
                let _ = ended;
            })
            .on_error(move |asi, _| {
                handles.add(name);
                asi.success(())
            });
        }
    });
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect("both recover");
    assert_eq!((log.take().as_str(), now(&tool)), ("-fast fast -slow slow", 210));
}

#[test]
fn the_steps_around_branches_are_undone_before_and_after_them() {
    let (tool, log) = (tool(), Log::default());
    let (clock, books) = (tool.clone(), log.clone());
    let mut flow = Flow::new();
    let book = move |asi: &mut asyncsteps_core::AsyncSteps, name: &'static str, undo: u64| {
        let (clock, books) = (clock.clone(), books.clone());
        asi.run(async |()| Ok(())).undo(async move |_| {
            books.add(format_args!("[{name}"));
            pause(&clock, ms(undo)).await;
            books.add(format_args!("{name}]"));
            Ok(())
        });
    };
    book(flow.steps(), "first", 10);
    let inside = book.clone();
    flow.parallel(move |p| {
        let (left, right) = (inside.clone(), inside);
        p.add(move |asi, ()| {
            left(asi, "a", 10);
            let below = left.clone();
            asi.parallel(move |p| {
                let (left, right) = (below.clone(), below);
                p.add(move |asi, ()| left(asi, "b", 30));
                p.add(move |asi, ()| right(asi, "c", 20));
            });
            asi.add(move |asi, ()| left(asi, "d", 10));
        });
        p.add(move |asi, ()| right(asi, "e", 25));
    });
    book(flow.steps(), "last", 10);
    flow.error_step(Error::new("Fails"));
    let promise = flow.promise::<(), _>(&tool);
    tool.complete(promise).expect("it ends").expect_err("it fails");
    let expected = "[last last] [d [e d] [c [b e] c] b] [a a] [first first]";
    assert_eq!((log.take().as_str(), now(&tool)), (expected, 70));
}
