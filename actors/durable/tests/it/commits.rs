//! A step that commits: a cancel comes before it or too late, and the result says what became true.

use std::time::Duration;

use asyncsteps_durable::{Cancelling, Durable, Options};
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;

use crate::lab::{Lab, Nothing, result, soon};
use crate::node::{Crash, Kind, run};

fn order(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps.nested("sell", sell).timeout(LIMIT).returns()
}

fn sell(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    steps
        .run("pay", async |cx, ()| {
            soon().await;
            cx.count("paid");
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            cx.count("repaid");
            Ok(())
        })
        .then("place", async |cx, ()| {
            soon().await;
            cx.count("placed");
            soon().await;
            if cx.program == 2 { Err("no stock".into()) } else { Ok(()) }
        })
        .recorded()
        .commits()
        .then("mail", async |_, ()| {
            soon().await;
            Ok("sold".to_owned())
        })
        .recorded()
        .returns()
}

/// Longer than it takes to pay, and shorter than the whole.
const LIMIT: Duration = Duration::from_millis(13);

fn lab() -> Lab {
    Lab::new(|durable, functions| _ = durable.on(functions, "order", order))
}

/// What became true fits the ending: nothing is paid and not sold, or sold and cancelled.
fn check(lab: &Lab, ending: &Ending, what: &str) {
    let [paid, repaid, placed] = ["paid", "repaid", "placed"].map(|what| lab.counted(what) > 0);
    match ending {
        Ending::Completed(_) => {
            assert_eq!(result::<String>(ending), "sold", "{what}");
            assert!(paid && placed && !repaid, "{what}: {:?}", lab.all_counted());
        }
        Ending::Cancelled | Ending::Failed(_) | _ => {
            assert!(!placed && (repaid || !paid), "{what}: {ending:?} {:?}", lab.all_counted());
        }
    }
}

async fn cancel(durable: &Durable, uid: Uid) -> Cancelling {
    durable.cancel(uid, "the test").await.expect("the journal takes it")
}

#[test]
fn a_cancel_at_any_moment_is_in_time_or_too_late() {
    run(async {
        let mut answers = Vec::new();
        for millis in 0..25 {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, "order", Options::default()).await;
            let (durable, executor) = lab.process(journal.clone());
            let node = durable.start(&executor).await.expect("the journal gives a lease");
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let answer = cancel(&durable, uid).await;
            let ending = durable.ended(uid).await.expect("it is known");
            let what = format!("after {millis} ms {answer:?}");
            check(&lab, &ending, &what);
            let is_in_time = answer == Cancelling::Requested;
            assert_eq!(is_in_time, matches!(ending, Ending::Cancelled), "{what}: {ending:?}");
            answers.push(answer);
            node.stop().await;
        }
        assert_eq!(answers.first(), Some(&Cancelling::Requested));
        assert_eq!(answers.last(), Some(&Cancelling::TooLate));
    });
}

#[test]
fn a_cancel_after_a_crash_at_any_record_is_in_time_or_too_late() {
    run(async {
        for kind in [Kind::BeforeStored, Kind::AfterStored] {
            for append in 1.. {
                let lab = lab();
                let journal = lab.journal();
                let uid = lab.submit(&journal, "order", Options::default()).await;
                let crash = Crash { append, kind };
                let process = |journal: Memory| lab.process(journal);
                let until = crate::node::run_until(&journal, process, uid, Some(crash)).await;
                if matches!(until, crate::node::Until::Ended(_)) {
                    break;
                }
                let (durable, _executor) = lab.process(journal.clone());
                let answer = cancel(&durable, uid).await;
                let (ending, _) = lab.ended(&journal, uid, &[]).await;
                let what = format!("{crash:?} {answer:?}");
                check(&lab, &ending, &what);
                let is_in_time = answer == Cancelling::Requested;
                assert_eq!(is_in_time, matches!(ending, Ending::Cancelled), "{what}: {ending:?}");
            }
        }
    });
}

#[test]
fn a_step_that_fails_has_not_committed() {
    run(async {
        let lab = lab().with_program(2);
        let journal = lab.journal();
        let uid = lab.submit(&journal, "order", Options::default()).await;
        let (ending, _) = lab.ended(&journal, uid, &[]).await;
        assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
        assert_eq!((lab.counted("paid"), lab.counted("repaid")), (1, 1));
    });
}
