//! Seats of events, which are reserved and paid.

use std::collections::HashMap;
use std::error::Error;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::Duration;

use asyncsteps::{Code, Fallible, Retry};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_executor::transport::http::{self, Server};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Gives, Service, Steps, observe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// What callers are told: the names are the codes.
#[derive(Debug, thiserror::Error, Code)]
enum SeatError {
    #[error("{0} seats are left")]
    #[code(public)] // callers may read the text
    SoldOut(i32),
    #[error("the bank does not answer")]
    BankUnavailable,
}

impl SeatError {
    fn is_transient(&self) -> bool {
        matches!(self, Self::BankUnavailable)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Reserve {
    event: String,
    #[schemars(range(min = 1, max = 10))]
    seats: i32,
}

#[derive(Serialize, JsonSchema)]
struct Reserved {
    payment: String,
    left: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Event {
    event: String,
}

/// Stands for the client of a bank. It fails as often as it is told.
#[derive(Default)]
struct Bank {
    failures: AtomicU32,
}

impl Bank {
    async fn pay(&self, key: &str) -> Result<String, SeatError> {
        sleep(Duration::from_millis(20)).await;
        let failures = self.failures.load(Ordering::Relaxed);
        self.failures.store(failures.saturating_sub(1), Ordering::Relaxed);
        if failures > 0 { Err(SeatError::BankUnavailable) } else { Ok(format!("paid {key}")) }
    }
}

/// What the functions share.
struct Seats {
    bank: Bank,
    taken: StdMutex<HashMap<String, i32>>,
    events: Mutex, // each key is a lock of its own
}

impl Service for Seats {
    type Errors = SeatError; // whose codes callers see; any other error is InternalError for them
}

impl Seats {
    const ALL: i32 = 100;

    fn new(bank: Bank) -> Self {
        Self { bank, taken: StdMutex::default(), events: Mutex::new(Default::default()) }
    }

    /// A function in steps: it has locks, attempts, and something to undo.
    fn reserve(asi: &mut Steps<Self, Reserve>) -> Gives<Reserved> {
        let cx = asi.cx();
        asi.this().locked(&cx.events.key(&cx.params.event)); // one at a time for each event
        asi.run("take seats", async |cx, ()| Ok(cx.take(&cx.params.event, cx.params.seats)?))
            .undo(async |cx, _| Ok(cx.take(&cx.params.event, -cx.params.seats).map(drop)?))
            .then("pay", async |cx, left| {
                let payment = cx.bank.pay(cx.key()).await?; // the same key in each attempt
                Ok(Reserved { payment, left })
            })
            .timeout(Duration::from_millis(300)) // each attempt
            .retry(
                Retry::attempts(3).backoff(Duration::from_millis(50)).on(SeatError::is_transient),
            )
            .into()
    }

    /// A function without structure is an `async fn`.
    async fn left(cx: &Cx<Self, Event>) -> Fallible<i32> {
        let _turn = cx.events.key(&cx.params.event).lock().await; // after reservations under way
        Ok(cx.take(&cx.params.event, 0)?)
    }

    /// Takes seats, or gives them back; gives how many are left.
    fn take(&self, event: &str, seats: i32) -> Result<i32, SeatError> {
        let mut events = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = events.entry(event.to_owned()).or_default();
        let left = Self::ALL - *taken - seats;
        if left < 0 {
            return Err(SeatError::SoldOut(left + seats));
        }
        *taken += seats;
        Ok(left)
    }
}

fn executor(bank: Bank) -> Result<Executor, Box<dyn Error>> {
    let mut interface = Interface::new("acme.seats:1.0".parse()?);
    interface.allow_anonymous();
    let executor = Executor::builder().service(interface, Seats::new(bank), |functions| {
        functions.on("reserve", Seats::reserve).on("left", Seats::left);
    });
    Ok(executor.build()?)
}

#[actix_rt::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _log = observe::init()?; // a line for each request
    let executor = executor(Bank::default())?;
    let server = Server::new(http::service("/ftn/", executor));
    server.listen(TcpListener::bind("127.0.0.1:8080")?)?.run().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Reserves two seats at a bank that fails at first; gives the outcome and what is left.
    async fn reserve(failures: u32) -> (Result<Value, String>, i32) {
        tokio::time::pause(); // pauses take no time
        let executor =
            executor(Bank { failures: failures.into() }).expect("the types can be written");
        let two = json!({ "event": "opera", "seats": 2 });
        let reserved = executor.call_as_system("acme.seats:1.0:reserve", two).await;
        let left = executor.call_as_system("acme.seats:1.0:left", json!({ "event": "opera" }));
        (reserved.map_err(|error| error.code().to_owned()), left.await.expect("a number"))
    }

    #[actix_rt::test]
    async fn a_bank_that_fails_twice_is_asked_three_times() {
        let (reserved, left) = reserve(2).await;
        assert_eq!(reserved.expect("it was paid")["left"], 98);
        assert_eq!(left, 98);
    }

    #[actix_rt::test]
    async fn seats_that_are_not_paid_are_free_again() {
        let (reserved, left) = reserve(3).await;
        assert_eq!(reserved, Err("BankUnavailable".to_owned()));
        assert_eq!(left, 100);
    }
}
