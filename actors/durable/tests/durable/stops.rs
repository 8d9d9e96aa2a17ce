//! A service that stops cuts undo as a crash does: the request goes on at its next owner.

use std::time::Duration;

use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Options, Recorded, Repeatable};
use asyncsteps_executor::{Cx, Gives, Steps};

use crate::bank::{Bank, End};
use crate::lab::Nothing;
use crate::node::run;

fn undo_hangs(asi: &mut Steps<Bank, Nothing>) -> Gives<String> {
    asi.run("charge", async |cx: &Cx<Bank, Nothing>, ()| {
        cx.deal(cx.key());
        Ok(())
    })
    .recorded()
    .undo(async |cx, _| {
        if cx.program == "unreachable" {
            tokio::time::sleep(Duration::from_secs(100_000)).await;
        }
        cx.undo(cx.key());
        Ok(())
    });
    asi.run("confirm", async |_: &Cx<Bank, Nothing>, ()| Err::<String, _>("Refused".into()))
        .repeatable()
        .into()
}

#[test]
fn an_undo_that_the_end_of_the_grace_cuts_goes_on_at_the_next_owner() {
    run(async {
        let bank = Bank::new(undo_hangs);
        let journal = bank.journal();
        let uid = bank.submit(&journal, Options::default()).await;
        let (durable, executor) = bank.process("unreachable", None).serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bank.kept(), ["order-charge"], "its undo has not ended");
        let _ = executor.close(Duration::from_secs(5)).await;
        node.stop().await;
        match bank.replay(&journal, uid).await {
            End::Ended(Ending::Failed(_)) => {}
            other @ (End::Ended(_) | End::Paused(_)) => panic!("{other:?}"),
        }
        assert_eq!(bank.kept(), [""; 0]);
    });
}
