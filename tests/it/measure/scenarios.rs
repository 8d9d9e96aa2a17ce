//! What both versions of a charge do, in virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::versions::{Answer, Payments, notify_both};
use super::world::{Act, Bank, CALL, Charged, Failed, Ledger};

/// The limit of a request.
const LIMIT: Duration = Duration::from_millis(500);

/// What a charge has come to, and what the bank has seen.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    answer: Answer<Charged>,
    /// Hundredths of a second: each timer of tokio may take a millisecond more.
    time: u128,
    calls: usize,
    refunds: usize,
}

/// Charges once by both versions, which do the same.
async fn check(script: &[Act], ledger: Option<Act>, expected: Seen) {
    for (payments, bank) in Payments::both(|| (Bank::new(script), Ledger::new(ledger))) {
        let begun = Instant::now();
        let answer = payments.charge("ann").await;
        // an undo in steps is a part of the answer; a task of the plain version is not
        let time = match payments {
            Payments::Steps(_) => begun.elapsed() - CALL * u32::from(expected.refunds > 0),
            Payments::Plain(_) => begun.elapsed(),
        };
        sleep(CALL * 2).await;
        let (calls, refunds) = (bank.calls(), bank.refunds());
        let seen = Seen { answer, time: hundredths(time), calls, refunds };
        assert_eq!(seen, expected);
    }
}

fn hundredths(time: Duration) -> u128 {
    time.as_millis() / 10
}

fn charged(attempts: u32) -> Answer<Charged> {
    Ok(Charged { charge: "charge of ann".to_owned(), attempts })
}

fn error(code: &str) -> Answer<Charged> {
    Err(code.to_owned())
}

#[actix::test]
async fn a_flaky_bank_is_asked_again() {
    tokio::time::pause();
    let seen = Seen { answer: charged(1), time: 10, calls: 1, refunds: 0 };
    check(&[], None, seen).await;
    // 50 and 100 of pauses, 300 of the limit of an attempt
    let seen = Seen { answer: charged(3), time: 55, calls: 3, refunds: 0 };
    check(&[Act::Fails, Act::Hangs], None, seen).await;
}

#[actix::test]
async fn it_gives_up_after_four_attempts_and_at_once_if_the_card_is_declined() {
    tokio::time::pause();
    // what is worth another attempt may have been charged
    let seen = Seen { answer: error("BankUnavailable"), time: 35, calls: 4, refunds: 1 };
    check(&[Act::Fails; 4], None, seen).await;
    let seen = Seen { answer: error("CardDeclined"), time: 10, calls: 1, refunds: 0 };
    check(&[Act::Declines], None, seen).await;
}

#[actix::test]
async fn what_is_not_recorded_is_refunded() {
    tokio::time::pause();
    let seen = Seen { answer: error("LedgerDown"), time: 10, calls: 1, refunds: 1 };
    check(&[], Some(Act::Fails), seen).await;
    // the outcome of a call that was cut is not known
    let seen = Seen { answer: error("InternalError"), time: 155, calls: 4, refunds: 1 };
    check(&[Act::Hangs; 4], None, seen).await;
}

#[actix::test]
async fn a_charge_that_is_cut_is_refunded() {
    tokio::time::pause();
    for hangs_in_bank in [true, false] {
        let script: &[Act] = if hangs_in_bank { &[Act::Hangs; 4] } else { &[] };
        let ledger = (!hangs_in_bank).then_some(Act::Hangs);
        for (payments, bank) in Payments::both(|| (Bank::new(script), Ledger::new(ledger))) {
            let cut = timeout(CALL * 3 / 2, payments.charge("ann")).await;
            assert!(cut.is_err(), "it was cut");
            sleep(CALL * 2).await;
            assert_eq!((bank.calls(), bank.refunds()), (1, 1));
        }
    }
}

#[actix::test]
async fn an_outer_limit_ends_the_attempts_inside() {
    tokio::time::pause();
    let banks = [Bank::new(&[Act::Hangs; 4]), Bank::new(&[Act::Hangs; 4])];
    let versions = [
        Payments::steps(banks[0].clone(), Ledger::new(None), Some(LIMIT)),
        Payments::plain(banks[1].clone(), Ledger::new(None)),
    ];
    for (payments, bank) in versions.iter().zip(banks) {
        let begun = Instant::now();
        let answer = payments.charge_within(LIMIT).await;
        let ended = (answer, hundredths(begun.elapsed()));
        assert_eq!(ended, (error("InternalError"), hundredths(LIMIT)));
        sleep(CALL * 2).await;
        assert_eq!((bank.calls(), bank.refunds()), (2, 1));
    }
}

#[actix::test]
async fn ten_calls_at_once_and_one_charge_per_customer() {
    tokio::time::pause();
    for (payments, bank) in Payments::both(Default::default) {
        let begun = Instant::now();
        // each customer twice; the bank would not have it at the same time
        let customers = (0..50).map(|number| format!("customer {}", number % 25));
        let charges = customers.map(|customer| {
            let payments = payments.clone();
            async move { payments.charge(&customer).await.expect("it pays").attempts }
        });
        assert_eq!(join_all(charges).await, [1; 50]);
        assert_eq!((bank.most(), hundredths(begun.elapsed())), (10, hundredths(CALL * 5)));
        assert_eq!(bank.refunds(), 0);
    }
}

#[actix::test]
async fn eight_letters_at_once_and_the_failures_are_collected() {
    tokio::time::pause();
    let customers = ["ann", "xaver", "bob", "xenia"].repeat(5);
    let customers: Vec<String> = customers.into_iter().map(str::to_owned).collect();
    for (failed, most) in notify_both(&customers).await {
        let failure = |customer: &str| Failed {
            customer: customer.to_owned(),
            error: "no such address".to_owned(),
        };
        let expected: Vec<Failed> =
            (0..5).flat_map(|_| [failure("xaver"), failure("xenia")]).collect();
        assert_eq!((failed, most), (expected, 8));
    }
}
