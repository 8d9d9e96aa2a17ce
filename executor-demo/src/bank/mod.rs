//! A bank for the shop: it holds an amount of a customer, pays it to the shop, or returns it.
//!
//! Every call has a key. A repeated call gets the first answer, so that a caller that knows nothing of
//! the outcome asks again. A refund of a key that is not known is remembered: the authorization that
//! it undoes may still be on its way, and is refused when it comes. So a caller that was cut can
//! always undo, whatever has become of its call.

mod error;
mod flaky_link;
mod functions;
mod ledger;
mod remote;

use rusqlite::Connection;
use tokio::time::sleep;

use crate::store::{Store, StoreError};

use flaky_link::{FlakyLink, Leg};
use ledger::{Answer, NewPayment};

pub use error::BankError;
pub use flaky_link::LinkOptions;
pub use functions::definitions;
pub use ledger::Audit;
pub use remote::{BankLink, RemoteBank};

/// The bank, at the other end of a link. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bank {
    store: Store,
    link: FlakyLink,
    credit: Option<i64>,
}

impl Bank {
    /// A bank that keeps its books in `store`. Each customer has `credit` cents, or any credit if it
    /// is `None`.
    #[must_use]
    pub fn new(store: Store, credit: Option<i64>, link: LinkOptions) -> Self {
        Self { store, link: FlakyLink::new(link), credit }
    }

    /// Holds an amount, in cents, and returns it.
    ///
    /// # Errors
    /// [`BankError`].
    ///
    /// # Cancel safety
    /// A call that was begun reaches the bank, although nothing waits for its answer any more; so do
    /// calls of [`capture`](Self::capture) and [`refund`](Self::refund).
    pub async fn authorize(&self, key: &str, customer: &str, amount: i64) -> Answer {
        let payment = NewPayment { key: key.to_owned(), customer: customer.to_owned(), amount };
        let credit = self.credit;
        self.call(move |db| ledger::authorize(db, &payment, credit)).await
    }

    /// Pays the held amount to the shop, and returns it.
    ///
    /// # Errors
    /// [`BankError`].
    pub async fn capture(&self, key: &str) -> Answer {
        let key = key.to_owned();
        self.call(move |db| ledger::capture(db, &key)).await
    }

    /// Pays a held or captured amount back to the customer, and returns it. An unknown payment is
    /// refused from now on.
    ///
    /// # Errors
    /// [`BankError::Unavailable`] or [`BankError::Store`].
    pub async fn refund(&self, key: &str) -> Answer {
        let key = key.to_owned();
        self.call(move |db| ledger::refund(db, &key)).await
    }

    /// The balance of a customer, in cents, without the link: zero or less, because customers have
    /// credit.
    ///
    /// # Errors
    /// [`BankError::Store`].
    pub async fn balance(&self, customer: &str) -> Result<i64, BankError> {
        let customer = customer.to_owned();
        Ok(self.store.read(move |db| ledger::balance(db, &customer)).await?)
    }

    /// Adds up the books, without the link.
    ///
    /// # Errors
    /// [`BankError::Store`].
    pub async fn audit(&self) -> Result<Audit, BankError> {
        Ok(self.store.read(ledger::audit).await?)
    }

    /// Carries out a call in a task of its own, as a remote bank would: it goes on without its caller.
    async fn call(
        &self,
        work: impl FnOnce(&Connection) -> Result<Answer, StoreError> + Send + 'static,
    ) -> Answer {
        let (fate, store) = (self.link.next(), self.store.clone());
        let call = actix_rt::spawn(async move {
            sleep(fate.there).await;
            if fate.lost == Some(Leg::There) {
                return Err(BankError::Unavailable);
            }
            let answer = store.write(work).await?;
            sleep(fate.back).await;
            if fate.lost == Some(Leg::Back) { Err(BankError::Unavailable) } else { answer }
        });
        // its task ends early only with the whole arbiter
        call.await.unwrap_or(Err(BankError::Unavailable))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn bank(credit: Option<i64>, link: LinkOptions) -> Bank {
        Bank::new(Store::open(Path::new(":memory:")).expect("a database"), credit, link)
    }

    async fn audit(bank: &Bank) -> (i64, i64) {
        let audit = bank.audit().await.expect("the books");
        assert!(audit.adds_up(), "{audit:?}");
        (audit.held, audit.shop)
    }

    #[actix_rt::test]
    async fn each_call_moves_an_amount_once() {
        let bank = bank(None, LinkOptions::default());
        for _ in 0..2 {
            assert_eq!(bank.authorize("k1", "ann", 70).await.expect("held"), 70);
            assert_eq!(audit(&bank).await, (70, 0));
        }
        for other in [("bob", 70), ("ann", 71)] {
            let refused = bank.authorize("k1", other.0, other.1).await;
            assert!(matches!(refused, Err(BankError::KeyReused)), "{refused:?}");
        }
        for _ in 0..2 {
            assert_eq!(bank.capture("k1").await.expect("captured"), 70);
            assert_eq!(audit(&bank).await, (0, 70));
        }
        assert_eq!(bank.authorize("k1", "ann", 70).await.expect("the first answer"), 70);
        for _ in 0..2 {
            assert_eq!(bank.refund("k1").await.expect("refunded"), 70);
            assert_eq!(audit(&bank).await, (0, 0));
        }
    }

    #[actix_rt::test]
    async fn calls_that_come_after_their_refund_are_refused() {
        let bank = bank(None, LinkOptions::default());
        bank.authorize("held", "ann", 5).await.expect("held");
        for (key, given_back) in [("held", 5), ("unknown", 0)] {
            assert_eq!(bank.refund(key).await.expect("refunded"), given_back);
            let late = bank.authorize(key, "ann", 5).await;
            assert!(matches!(late, Err(BankError::Refunded)), "{late:?}");
            let late = bank.capture(key).await;
            assert!(matches!(late, Err(BankError::Refunded)), "{late:?}");
        }
        let unknown = bank.capture("never").await;
        assert!(matches!(unknown, Err(BankError::UnknownPayment)), "{unknown:?}");
        assert_eq!(audit(&bank).await, (0, 0));
    }

    #[actix_rt::test]
    async fn a_declined_payment_stays_declined() {
        let bank = bank(Some(100), LinkOptions::default());
        bank.authorize("k1", "ann", 60).await.expect("covered");
        for _ in 0..2 {
            let declined = bank.authorize("k2", "ann", 60).await;
            assert!(matches!(declined, Err(BankError::Declined)), "{declined:?}");
            let declined = bank.capture("k2").await;
            assert!(matches!(declined, Err(BankError::Declined)), "{declined:?}");
            assert_eq!(bank.refund("k2").await.expect("nothing to give back"), 0);
        }
        bank.refund("k1").await.expect("refunded");
        bank.authorize("k3", "ann", 100).await.expect("covered again");
        assert_eq!(audit(&bank).await, (100, 0));
    }

    #[actix_rt::test]
    async fn no_balance_leaves_the_range_of_the_books() {
        let bank = bank(None, LinkOptions::default());
        let most = i64::MAX;
        bank.authorize("k1", "ann", most).await.expect("within the range");
        bank.authorize("k2", "ann", 2).await.expect_err("beyond it");
        bank.capture("k1").await.expect("captured");
        bank.authorize("k3", "bob", 1).await.expect("held");
        let beyond = bank.capture("k3").await;
        assert!(matches!(beyond, Err(BankError::Declined)), "{beyond:?}");
        for (key, amount) in [("k3", 1), ("k1", most)] {
            assert_eq!(bank.refund(key).await.expect("refunded"), amount);
        }
        assert_eq!(audit(&bank).await, (0, 0));
    }

    #[actix_rt::test]
    async fn a_call_goes_on_without_its_caller_and_may_be_lost_both_ways() {
        tokio::time::pause();
        let latency = Duration::from_millis(100);
        let slow = bank(None, LinkOptions { latency, ..LinkOptions::default() });
        for key in ["k1", "k2", "k3"] {
            let hurry = Duration::from_micros(1);
            tokio::time::timeout(hurry, slow.authorize(key, "ann", 1)).await.expect_err("slow");
        }
        sleep(latency * 2).await;
        assert_eq!(audit(&slow).await, (3, 0));

        let lossy = bank(None, LinkOptions { failures: 50, seed: 1, ..LinkOptions::default() });
        let mut answered = 0;
        for key in 0..100 {
            match lossy.authorize(&key.to_string(), "ann", 1).await {
                Ok(amount) => answered += amount,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
        let held = audit(&lossy).await.0;
        assert!((30..70).contains(&answered), "{answered}");
        assert!(answered < held && held < 100, "{answered} of {held}");
    }
}
