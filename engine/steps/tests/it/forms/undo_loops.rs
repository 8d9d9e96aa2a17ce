//! Undos of what the end of an iteration or of a loop cancels (FTN12 §1.8, §2.2.4): what comes next
//! begins after them, and they run within the locks that were held.

use std::future::pending;

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Flow};

use crate::forms::support::{Log, ms, now, pause, tool};

/// Where the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Around,
    InBranch,
}

/// Two branches: one charges, which takes 50 ms to undo, and hangs; the other one ends the iteration
/// or the loop after 10 ms.
fn branches(
    asi: &mut AsyncSteps,
    (tool, log): (&Manual, &Log),
    (mutex, lock): (&Mutex, Lock),
    continues: bool,
) {
    let (clock, undoes, held) = (tool.clone(), log.clone(), mutex.clone());
    let mut both = asi.parallel(move |p| {
        let mut charge = p.add(move |asi, ()| {
            asi.run(async |()| Ok(())).undo(async move |_| {
                pause(&clock, ms(50)).await;
                undoes.add("undone");
                Ok(())
            });
            asi.run(async |()| pending::<Result<(), _>>().await);
        });
        if lock == Lock::InBranch {
            charge.locked(&held);
        }
        p.add(move |asi, ()| {
            asi.sleep(ms(10));
            asi.add(move |asi, ()| match continues {
                true => asi.continue_loop("orders"),
                false => asi.break_loop("orders"),
            });
        });
    });
    if lock == Lock::Around {
        both.locked(mutex);
    }
}

#[test]
fn what_follows_an_iteration_or_a_loop_begins_after_the_undos() {
    for lock in [Lock::Around, Lock::InBranch] {
        for continues in [true, false] {
            for in_branch in [false, true] {
                let (tool, log, mutex) = (tool(), Log::default(), Mutex::default());
                let (clock, rounds, object) = (tool.clone(), log.clone(), mutex.clone());
                let mut flow = Flow::new();
                let looped = move |asi: &mut AsyncSteps| {
                    asi.repeat(2, move |asi, i| {
                        rounds.add(format_args!("round{i}:{}", now(&clock)));
                        if i == 0 {
                            branches(asi, (&clock, &rounds), (&object, lock), continues);
                        }
                    })
                    .label("orders");
                };
                if in_branch {
                    flow.parallel(move |p| {
                        p.add(move |asi, ()| looped(asi));
                    });
                } else {
                    looped(flow.steps());
                }
                let (clock, after) = (tool.clone(), log.clone());
                flow.add(move |_, ()| after.add(format_args!("after:{}", now(&clock))));
                let (mut next, entered) = (Flow::new(), log.clone());
                next.steps().sleep(ms(5));
                next.sync(&mutex, move |_, ()| entered.add("next"));
                let next = next.promise::<(), _>(&tool);
                tool.spawn(async move { drop(next.await) });
                let promise = flow.promise::<(), _>(&tool);
                tool.complete(promise).expect("it ends").expect("it succeeds");
                let case = format!("{lock:?} {continues} {in_branch}");
                let log = log.take();
                let (undone, next) = (log.find("undone"), log.find("next"));
                assert!(undone.is_some() && undone < next, "{case}: {log}");
                let expected = match continues {
                    true => "round0:0 undone round1:60 after:60",
                    false => "round0:0 undone after:60",
                };
                assert_eq!(log.replace(" next", ""), expected, "{case}");
                assert_eq!((mutex.holders(), mutex.queued()), (0, 0), "{case}");
            }
        }
    }
}
