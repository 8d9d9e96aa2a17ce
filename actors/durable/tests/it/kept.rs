//! What a request keeps without an undo is known when it has ended without a result, or waits for an operator.

use std::time::Duration;

use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::Uid;
use asyncsteps_journal::request::FlowState;

use crate::lab::{Lab, Nothing, soon};
use crate::node::run;

/// Programs: 1 fails at the end, 2 has a result, 3 fails and so does its undo, 4 waits in the body of a step.
fn order(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps
        .run("look", async |_, ()| Ok(()))
        .repeatable()
        .then("note", async |_, ()| Ok(()))
        .recorded()
        .then("charge", async |_, ()| Ok(()))
        .recorded()
        .undo(async |cx, _| if cx.program == 3 { Err("Away".into()) } else { Ok(()) })
        .then_pause("rest", Duration::from_secs(1))
        .then_wait_signal_within::<u8>("word", Duration::from_secs(1))
        .then("list", async |_, _| Ok(vec![1, 2]))
        .recorded()
        .then_each(
            "several",
            |_, list| list,
            |item| {
                let one = item.run("one", async |cx, item| match (cx.program, item) {
                    (1, 2) => {
                        soon().await;
                        Err("NoSecond".into())
                    }
                    _ => Ok(item),
                });
                one.recorded().returns()
            },
        )
        .then_each(
            "undone",
            |_, list| list,
            |item| {
                let one = item.run("one", async |_, _| Ok(()));
                one.recorded().undo(async |_, _| Ok(())).returns()
            },
        )
        .then_scope("inner", |steps| steps.run("post", async |_, _| Ok(())).recorded().returns())
        .then("mail", async |cx, ()| {
            if cx.program == 4 {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .once()
        .then("end", async |cx, ()| if cx.program == 2 { Ok(()) } else { Err("NoEnd".into()) })
        .recorded()
        .returns()
}

fn lab(program: u32) -> Lab {
    Lab::new(|durable, functions| _ = durable.on(functions, "order", order)).with_program(program)
}

async fn kept(durable: &Durable, uid: Uid) -> Vec<String> {
    let kept = durable.kept(uid).await.expect("it is known");
    let name = |path: &str| path.rsplit_once("order/").map_or(path, |(_, name)| name).to_owned();
    kept.iter().map(|path| name(path.as_str())).collect()
}

/// What a program keeps when it has ended or was paused; it is cancelled while it does not end.
async fn kept_by(program: u32) -> (Vec<String>, Option<Ending>) {
    let lab = lab(program);
    let journal: Memory = lab.journal();
    let uid = lab.submit(&journal, "order", Options::default()).await;
    let (durable, executor) = lab.process(journal);
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    for second in 0.. {
        let status = durable.status(uid).await.expect("it is known");
        if matches!(status.flow.state, FlowState::Ended | FlowState::Paused) {
            let kept = kept(&durable, uid).await;
            node.stop().await;
            return (kept, status.ending);
        }
        assert_eq!(kept(&durable, uid).await, [""; 0], "it runs");
        if second == 10 {
            durable.cancel(uid, "ann").await.expect("it is known");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    unreachable!("it ends")
}

#[test]
fn a_request_without_a_result_lists_what_it_keeps() {
    run(async {
        // the first item is done, and the second one has failed
        let (kept, ending) = kept_by(1).await;
        assert!(matches!(ending, Some(Ending::Failed(_))), "{ending:?}");
        assert_eq!(kept, ["list", "note", "several@0/one"]);
        let (kept, ending) = kept_by(2).await;
        assert!(matches!(ending, Some(Ending::Completed(_))), "{ending:?}");
        assert_eq!(kept, [""; 0]);
        let (kept, ending) = kept_by(3).await;
        assert!(ending.is_none(), "{ending:?}");
        assert_eq!(kept, ["inner/post", "list", "mail", "note", "several@0/one", "several@1/one"]);
        // it is cancelled while it mails, so perhaps it has
        let (kept, ending) = kept_by(4).await;
        assert_eq!(ending, Some(Ending::Cancelled));
        assert_eq!(kept, ["inner/post", "list", "mail", "note", "several@0/one", "several@1/one"]);
    });
}
