//! Seats of events, which are reserved and paid.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::error::Error;
use std::net::TcpListener;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use asyncsteps::http::{self, Server};
use asyncsteps::sync::Mutex;
use asyncsteps::typed::Interface;
use asyncsteps::{BodyResult, Code, Cx, Executor, Retry, Returns, Service, Steps, observe, sleep};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Stands for the client of a bank, which carries out a call once for each key.
#[derive(Clone, Default)]
struct Bank(Arc<StdMutex<BTreeSet<String>>>);

impl Bank {
    async fn pay(&self, key: &str) -> Result<String, SeatError> {
        sleep(Duration::from_millis(20)).await; // this one runs in tests too, in virtual time
        self.books()?.insert(key.to_owned());
        sleep(Duration::from_millis(20)).await;
        Ok(format!("paid {key}"))
    }

    async fn refund(&self, key: &str) -> Result<(), SeatError> {
        sleep(Duration::from_millis(20)).await;
        self.books()?.remove(key);
        Ok(())
    }

    /// The keys that were paid. A bank that is busy does not answer.
    fn books(&self) -> Result<MutexGuard<'_, BTreeSet<String>>, SeatError> {
        self.0.try_lock().map_err(|_| SeatError::BankUnavailable)
    }
}

/// Stands for a database: the seats of each event that are taken, by the keys of the steps that took them.
#[derive(Clone, Default)]
struct Halls(Arc<StdMutex<HashMap<String, BTreeMap<String, i32>>>>);

impl Halls {
    const SEATS: i32 = 100;

    /// Takes seats, once for each key; returns how many are left.
    fn take(&self, key: &str, event: &str, seats: i32) -> Result<i32, SeatError> {
        let mut halls = self.halls();
        let taken = halls.entry(event.to_owned()).or_default();
        taken.remove(key);
        let left = Self::SEATS - taken.values().sum::<i32>();
        if left < seats {
            return Err(SeatError::SoldOut(left));
        }
        taken.insert(key.to_owned(), seats);
        Ok(left - seats)
    }

    /// Releases the seats that were taken under this key, if there are any.
    fn release(&self, key: &str, event: &str) {
        self.halls().entry(event.to_owned()).or_default().remove(key);
    }

    /// How many seats of an event are left.
    fn left(&self, event: &str) -> i32 {
        Self::SEATS - self.halls().get(event).map_or(0, |taken| taken.values().sum())
    }

    fn halls(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, i32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the functions share.
struct Seats {
    bank: Bank,
    halls: Halls,
    events: Mutex, // each key is a lock of its own
}

impl Service for Seats {
    type Errors = SeatError; // whose codes callers see; any other error is InternalError for them
}

impl Seats {
    /// A function in steps: it has locks, attempts, and something to undo.
    fn reserve(steps: &Steps<Self, Reserve>) -> Returns<Reserved> {
        steps.locked(|cx| cx.events.key(&cx.params.event)); // one at a time for each event
        steps
            .run("take seats", async |cx, ()| {
                Ok(cx.halls.take(cx.key(), &cx.params.event, cx.params.seats)?)
            })
            .undo(async |cx, _| {
                cx.halls.release(cx.key(), &cx.params.event); // the same key
                Ok(())
            })
            .then("pay", async |cx, left| {
                let payment = cx.bank.pay(cx.key()).await?; // the same key in each attempt
                Ok((payment, left))
            })
            .timeout(Duration::from_millis(300)) // each attempt
            .retry(
                Retry::attempts(3).backoff(Duration::from_millis(50)).on(SeatError::is_transient),
            )
            .undo(async |cx, _| Ok(cx.bank.refund(cx.key()).await?)) // of a cut payment too
            .then("confirm", async |_, (payment, left)| Ok(Reserved { payment, left }))
            .returns()
    }

    /// A function without structure is an `async fn`.
    async fn left(cx: &Cx<Self, Event>) -> BodyResult<i32> {
        let _turn = cx.events.key(&cx.params.event).lock().await; // after reservations in flight
        Ok(cx.halls.left(&cx.params.event))
    }
}

fn executor(bank: Bank, halls: Halls) -> Result<Executor, Box<dyn Error>> {
    let mut interface = Interface::new("acme.seats:1.0".parse()?);
    interface.allow_anonymous();
    let seats = Seats { bank, halls, events: Mutex::new(Default::default()) };
    let executor = Executor::builder().service(interface, seats, |functions| {
        functions.on("reserve", Seats::reserve).on("left", Seats::left);
    });
    Ok(executor.build()?)
}

#[actix_rt::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _log = observe::init()?; // a line for each request
    let executor = executor(Bank::default(), Halls::default())?;
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/ftn/", listener.local_addr()?);
    Server::new(http::service("/ftn/", executor)).listen(listener)?.run().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use asyncsteps::sim::{self, Cut, Options};
    use asyncsteps::test::TestRequest;
    use asyncsteps::{Error, Outcome};
    use serde_json::json;

    use super::*;

    fn reserve(seats: i32) -> TestRequest {
        let params = json!({ "event": "opera", "seats": seats });
        TestRequest::new("acme.seats:1.0:reserve").params(params)
    }

    /// The world around a service: how many payments it has got, and how many seats it has taken.
    #[derive(Default)]
    struct World {
        bank: Bank,
        halls: Halls,
    }

    impl World {
        fn executor(&self) -> Executor {
            executor(self.bank.clone(), self.halls.clone()).expect("the types can be written")
        }

        fn sold(&self) -> (usize, i32) {
            let paid = self.bank.books().expect("free").len();
            (paid, Halls::SEATS - self.halls.left("opera"))
        }
    }

    #[test]
    fn a_bank_that_fails_twice_is_asked_three_times() {
        sim::check(0..10, |sim| {
            let world = World::default();
            sim.fail_nth("pay", 1, SeatError::BankUnavailable);
            sim.fail_nth("pay", 2, SeatError::BankUnavailable);
            let reserved = sim.start(reserve(2).flow(&world.executor()));
            sim.run();
            reserved.assert_success();
            assert_eq!(world.sold(), (1, 2));
        });
    }

    #[test]
    fn seats_that_are_not_paid_are_free_again() {
        sim::check(0..10, |sim| {
            let world = World::default();
            sim.fail("pay", SeatError::BankUnavailable);
            let refused = sim.start(reserve(2).flow(&world.executor()));
            sim.run();
            refused.assert_error("BankUnavailable");
            assert_eq!(world.sold(), (0, 0));
        });
    }

    /// Whatever ends a reservation, and wherever: there is a payment if seats are taken.
    #[test]
    fn a_reservation_that_is_cut_anywhere_is_paid_or_undone() {
        for cut in [Cut::Cancel, Cut::Drop, Cut::Timeout, Cut::Error(Error::new("Down"))] {
            sim::cut_everywhere(&cut, &Options::default(), 0..3, |_| {
                let world = World::default();
                let flow = reserve(2).flow(&world.executor());
                (flow, move |outcome| match outcome {
                    Outcome::Success(_) => assert_eq!(world.sold(), (1, 2)),
                    Outcome::Error(_) | Outcome::Cancelled => {
                        assert!([(0, 0), (1, 2)].contains(&world.sold()), "{:?}", world.sold());
                    }
                })
            });
        }
    }

    /// An undo may run again from its beginning, as after a crash: it is idempotent by key.
    #[test]
    fn a_reservation_is_undone_once_however_often_its_undos_run() {
        for cut in [Cut::Undo, Cut::Cancel] {
            sim::cut_everywhere(&cut, &Options::default(), 0..3, |sim| {
                let world = World::default();
                sim.undo_twice();
                sim.fail("confirm", Error::new("Down"));
                let flow = reserve(2).flow(&world.executor());
                (flow, move |_| assert_eq!(world.sold(), (0, 0)))
            });
        }
    }
}
