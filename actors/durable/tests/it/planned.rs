//! The forms of plans in durable requests, with a crash at each record.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::Options;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_executor::{Cx, Either, Returns, Steps};

use crate::bank::{Bank, End, deals, undoes};
use crate::lab::{Nothing, soon};
use crate::node::{Crash, Kind, run};

async fn fails_once(cx: &Cx<Bank, Nothing>, number: u32) -> BodyResult<u32> {
    soon().await;
    if cx.key().contains(".2/") { Ok(number) } else { Err(Error::new("TryAgain").into()) }
}

/// Groups that are tried again, each beside steps of the same names; a way; a part that is final.
fn forms(steps: &Steps<Bank, Nothing>, _: &Bank) -> Returns<String> {
    let again = || Retry::attempts(2).on_code("TryAgain");
    steps
        .run("a", async |_, ()| Ok(1))
        .recorded()
        .then("b", deals)
        .recorded()
        .undo(undoes)
        .then("c", fails_once)
        .recorded()
        .as_one()
        .retry(again())
        .then_nested("inner", |steps| {
            steps
                .run("b", deals)
                .recorded()
                .undo(undoes)
                .then("c", fails_once)
                .recorded()
                .as_one()
                .retry(again())
                .returns()
        })
        .then_pause("pause", Duration::from_secs(20))
        .then("way", async |_, number| Ok(Either::<u32, u32>::B(number)))
        .recorded()
        .either(
            "either",
            |one| one.run("b", deals).recorded().undo(undoes).returns(),
            |other| other.run("b", deals).once().undo(undoes).returns(),
        )
        .then_scope("final", |steps| steps.run("b", deals).recorded().undo(undoes).returns())
        .then("last", async |cx, _| {
            soon().await;
            if cx.program == "fails" { Err(Error::new("Last").into()) } else { Ok(String::new()) }
        })
        .recorded()
        .returns()
}

/// What is kept of them, and what is final.
const DONE: [&str; 4] = ["order-.2/b", "order-either/b~2", "order-final/b", "order-inner/.2/b"];

#[test]
fn forms_of_plans_go_on_after_a_crash_at_each_record() {
    run(async {
        for program in ["", "fails"] {
            let mut crashes = 0;
            for append in 1.. {
                let bank = Bank::new(forms).process(program, None);
                let journal = bank.journal();
                let uid = bank.submit(&journal, Options::default()).await;
                let crash = Crash { append, kind: Kind::AfterStored };
                if bank.crash(&journal, uid, crash).await.is_some() {
                    break;
                }
                crashes += 1;
                let end = bank.process(program, None).replay(&journal, uid).await;
                let (kept, entries) = (bank.kept(), bank.entries());
                match end {
                    // the crash came when the step had begun that runs at most once
                    End::Ended(Ending::Failed(failure)) if failure.code == "OutcomeUnknown" => {
                        assert_eq!(kept, [""; 0], "{crash:?}: {entries:?}");
                    }
                    End::Ended(Ending::Completed(_)) if program.is_empty() => {
                        assert_eq!(kept, DONE, "{crash:?}: {entries:?}");
                    }
                    End::Ended(Ending::Failed(failure)) if program == "fails" => {
                        assert_eq!(failure.code, "InternalError", "{crash:?}: {entries:?}");
                        assert_eq!(kept, ["order-final/b"], "{crash:?}: {entries:?}");
                    }
                    end @ (End::Ended(_) | End::Paused(_)) => {
                        panic!("{program} {crash:?}: {end:?}, {entries:?}")
                    }
                }
            }
            assert!(crashes >= 8, "{crashes} crashes");
        }
    });
}
