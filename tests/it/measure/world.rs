//! What both versions work with: a bank that does as it is told, a ledger, a post, and their types.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::errors::{BankError, LedgerDown};

/// How long a call that is answered takes.
pub(crate) const CALL: Duration = Duration::from_millis(100);

/// The parameters of `charge`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Charge {
    pub(crate) customer: String,
    pub(crate) amount: i32,
}

/// The result of `charge`.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Charged {
    pub(crate) charge: String,
    pub(crate) attempts: u32,
}

/// The parameters of `notify`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Notify {
    pub(crate) customers: Vec<String>,
    pub(crate) text: String,
}

/// A customer who was not told.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Failed {
    pub(crate) customer: String,
    pub(crate) error: String,
}

/// What the bank gives for a charge.
#[derive(Clone, Debug)]
pub(crate) struct Tx(String);

/// What the bank does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Pays,
    Fails,
    Hangs,
    Declines,
}

/// The bank; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bank(Arc<Books>);

#[derive(Debug, Default)]
struct Books {
    script: Mutex<VecDeque<Act>>,
    keys: Mutex<Vec<String>>,
    customers: Mutex<Vec<String>>,
    refunds: Mutex<Vec<String>>,
    most: AtomicU32,
}

/// A call that is under way.
struct Call<'a>(&'a Books, String);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut customers = self.0.customers.lock().expect("no panic");
        let place = customers.iter().position(|customer| *customer == self.1);
        customers.swap_remove(place.expect("it was added"));
    }
}

impl Bank {
    /// A bank that does this with its first calls, and pays then.
    pub(crate) fn new(script: &[Act]) -> Self {
        let script = Mutex::new(script.iter().copied().collect());
        Self(Arc::new(Books { script, ..Books::default() }))
    }

    pub(crate) async fn charge(
        &self,
        customer: &str,
        amount: i32,
        key: &str,
    ) -> Result<Tx, BankError> {
        let _call = self.begin(customer);
        self.0.keys.lock().expect("no panic").push(key.to_owned());
        let act = self.0.script.lock().expect("no panic").pop_front().unwrap_or(Act::Pays);
        match act {
            Act::Hangs => std::future::pending().await,
            Act::Fails => Err(BankError::BankUnavailable),
            Act::Declines => {
                sleep(CALL).await;
                Err(BankError::CardDeclined)
            }
            Act::Pays => {
                sleep(CALL).await;
                Ok(Tx(format!("{customer}-{amount}")))
            }
        }
    }

    pub(crate) async fn refund(&self, key: &str) -> Result<(), BankError> {
        sleep(CALL).await;
        self.0.refunds.lock().expect("no panic").push(key.to_owned());
        Ok(())
    }

    fn begin(&self, customer: &str) -> Call<'_> {
        let mut customers = self.0.customers.lock().expect("no panic");
        assert!(!customers.iter().any(|other| other == customer), "two charges of {customer}");
        customers.push(customer.to_owned());
        let now = u32::try_from(customers.len()).expect("few calls");
        self.0.most.fetch_max(now, Ordering::Relaxed);
        Call(&self.0, customer.to_owned())
    }

    /// How many calls there were, all with keys of their charges.
    pub(crate) fn calls(&self) -> usize {
        self.0.keys.lock().expect("no panic").len()
    }

    /// How many calls were under way at once at the most.
    pub(crate) fn most(&self) -> u32 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// How many refunds there were. Each has the key of the charge.
    pub(crate) fn refunds(&self) -> usize {
        let (keys, refunds) =
            (self.0.keys.lock().expect("no panic"), self.0.refunds.lock().expect("no panic"));
        assert!(refunds.iter().all(|key| keys.contains(key)), "{refunds:?} of {keys:?}");
        refunds.len()
    }
}

/// The ledger; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Option<Act>>>);

impl Ledger {
    /// A ledger that records, unless it is told otherwise.
    pub(crate) fn new(act: Option<Act>) -> Self {
        Self(Arc::new(Mutex::new(act)))
    }

    pub(crate) async fn record(
        &self,
        customer: &str,
        amount: i32,
        tx: Tx,
    ) -> Result<String, LedgerDown> {
        let act = *self.0.lock().expect("no panic");
        match act {
            Some(Act::Hangs) => std::future::pending().await,
            Some(_) => Err(LedgerDown),
            None => {
                assert_eq!(tx.0, format!("{customer}-{amount}"));
                Ok(format!("charge of {customer}"))
            }
        }
    }
}

/// The post; clones are the same one. It reaches customers whose names do not begin with `x`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Post(Arc<(AtomicU32, AtomicU32)>);

/// The post does not know the customer.
#[derive(Debug, thiserror::Error)]
#[error("no such address")]
pub(crate) struct NoAddress;

impl Post {
    pub(crate) async fn send(&self, customer: &str, text: &str) -> Result<(), NoAddress> {
        assert!(!text.is_empty());
        let (now, most) = &*self.0;
        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        sleep(CALL).await;
        now.fetch_sub(1, Ordering::Relaxed);
        if customer.starts_with('x') { Err(NoAddress) } else { Ok(()) }
    }

    /// How many letters were under way at once at the most.
    pub(crate) fn most(&self) -> u32 {
        self.0.1.load(Ordering::Relaxed)
    }
}

/// A key that no other charge has.
pub(crate) fn random_key() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
