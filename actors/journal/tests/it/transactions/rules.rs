//! The rules.

use std::panic::AssertUnwindSafe;

use asyncsteps_journal::NotWritten;
use asyncsteps_journal::transaction::Committed;
use futures_util::FutureExt;

use super::world::{Bank, Flow, Then};
use crate::flows::entry;

pub(crate) async fn all(bank: &dyn Bank) {
    effect_and_record_are_there_together(bank).await;
    a_lost_answer_is_repeated_once(bank).await;
    a_stale_epoch_leaves_nothing(bank).await;
    what_fails_leaves_nothing(bank).await;
    a_panic_leaves_nothing(bank).await;
    what_is_dropped_leaves_nothing(bank).await;
    many_at_once_are_all_booked(bank).await;
}

async fn effect_and_record_are_there_together(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    let Committed::Written(written, record) = flow.book(Then::Ends).await else {
        panic!("written")
    };
    assert_eq!((written.inbox, record.path.to_string()), (0, "t/book".to_owned()));
    assert_eq!(bank.booked().await, before + 1);
    assert_eq!(flow.recorded().await, [format!("{} booked", before + 1)]);
}

async fn a_lost_answer_is_repeated_once(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    let mut prepared = bank.book(Then::Ends).await.unwrap();
    for _ in 0..3 {
        let committed = prepared.commit(&flow.step()).await.unwrap();
        assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
    }
    // also when another node has it meanwhile
    flow.take_over().await;
    let committed = prepared.commit(&flow.step()).await.unwrap();
    assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
    assert_eq!(bank.booked().await, before + 1);
    assert_eq!(flow.recorded().await.len(), 1);
}

async fn a_stale_epoch_leaves_nothing(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    let mut prepared = bank.book(Then::Ends).await.unwrap();
    let now = flow.take_over().await;
    match prepared.commit(&flow.step()).await.unwrap() {
        Committed::NotWritten(NotWritten::Stale { epoch }) => assert_eq!(epoch, now),
        other @ (Committed::Written(..) | Committed::NotWritten(_) | Committed::Failed(_)) => {
            panic!("{other:?}")
        }
    }
    assert_eq!((bank.booked().await, flow.recorded().await.len()), (before, 0));
}

async fn what_fails_leaves_nothing(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    for then in [Then::Fails, Then::GivesTooMuch, Then::OverlooksAnError, Then::BreaksAConstraint] {
        let Committed::Failed(error) = flow.book(then).await else { panic!("{then:?} fails") };
        let code = if then == Then::Fails { "Declined" } else { "InternalError" };
        assert_eq!(error.code(), code, "{then:?}: {error:?}");
        assert_eq!((bank.booked().await, flow.recorded().await.len()), (before, 0), "{then:?}");
    }
    let Committed::Failed(error) = flow.book(Then::EndsTheTransaction).await else {
        panic!("it may not")
    };
    assert_eq!(error.code(), "InternalError", "{error:?}");
    assert_eq!(flow.recorded().await.len(), 0);
    // the journal goes on, with the number that nothing has taken
    let answers = bank.journal().append(vec![entry(flow.uid, 1, "next")]).await.unwrap();
    answers[0].clone().unwrap();
}

async fn a_panic_leaves_nothing(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    let panicked = AssertUnwindSafe(flow.book(Then::Panics)).catch_unwind().await;
    let payload = panicked.expect_err("its body panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"declined"));
    assert_eq!((bank.booked().await, flow.recorded().await.len()), (before, 0));
    assert!(matches!(flow.book(Then::Ends).await, Committed::Written(..)));
}

async fn what_is_dropped_leaves_nothing(bank: &dyn Bank) {
    let flow = Flow::start(bank).await;
    let before = bank.booked().await;
    for _ in 0..20 {
        drop(bank.book(Then::Ends).await.unwrap());
    }
    assert!(matches!(flow.book(Then::Ends).await, Committed::Written(..)));
    assert_eq!((bank.booked().await, flow.recorded().await.len()), (before + 1, 1));
}

async fn many_at_once_are_all_booked(bank: &dyn Bank) {
    const MANY: usize = 30;
    let before = bank.booked().await;
    let mut flows = Vec::new();
    for _ in 0..MANY {
        flows.push(Flow::start(bank).await);
    }
    // some of them fail in the middle of the others
    let books = flows.iter().enumerate().map(async |(number, flow)| {
        let then = if number % 5 == 4 { Then::Fails } else { Then::Ends };
        matches!(flow.book(then).await, Committed::Written(..))
    });
    let written = futures_util::future::join_all(books).await;
    let count = written.iter().filter(|is_written| **is_written).count();
    assert_eq!(count, MANY - MANY / 5);
    assert_eq!(bank.booked().await, before + i64::try_from(count).unwrap());
}
