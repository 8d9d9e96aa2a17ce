//! The check of the server against the books.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::mem;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use crate::books::{Books, Money, Placed, Units, whole};
use crate::client::{Answer, Client};
use crate::measured::cut;
use crate::mix::{Call, LISTED};

const AUDIT: &str = "demo.bank:1.0:audit";

/// Units of each product when a run begins: enough for the hottest one.
const UNITS: i64 = 1_000_000;

/// The pause before something is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The most mismatches that are reported, and their characters.
const TOLD: usize = 20;
const MISMATCH: usize = 1024;

/// Puts these products on the shelf, looks at what the bank has, and opens books about them.
pub(crate) async fn open_books(client: &Client, skus: Vec<String>) -> anyhow::Result<Books> {
    for sku in &skus {
        let call = Call::Restock { sku: sku.clone(), count: UNITS };
        let answer = client.call(call.function(), &call.params()).await;
        ensure!(result(&answer).is_some(), "{} answers {answer:?}", call.function());
    }
    let answer = client.call(AUDIT, &json!({})).await;
    let has_no_bank = answer == Answer::Error("UnknownInterface".to_owned());
    let bank = if has_no_bank { None } else { Some(money(&answer)?) };
    Ok(Books::new(skus, UNITS, bank))
}

/// The findings of a check, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Differences of the server from the books.
    pub(crate) wrong: Vec<String>,
    /// Checks that there was no time for.
    pub(crate) not_checked: Vec<String>,
}

/// Asks until nothing is unknown, and compares what the server has with the books. It takes so long at
/// the most.
pub(crate) async fn check(
    call: impl AsyncFn(&str, &Value) -> Answer,
    books: &mut Books,
    limit: Duration,
) -> Found {
    let mut check = Check { call, until: Instant::now() + limit, limit, found: Found::default() };
    check.settle(books).await;
    check.stock(books).await;
    check.orders(books).await;
    if let Some(expected) = books.bank {
        check.bank(expected).await;
        check.balances(books).await;
    }
    let Found { mut wrong, not_checked } = check.found;
    if let Some(more @ 1..) = wrong.len().checked_sub(TOLD) {
        wrong.truncate(TOLD);
        wrong.push(format!("and {more} more"));
    }
    Found { wrong, not_checked }
}

/// A check that goes on.
struct Check<C> {
    /// Calls a function with parameters.
    call: C,
    until: Instant,
    limit: Duration,
    found: Found,
}

impl<C: AsyncFn(&str, &Value) -> Answer> Check<C> {
    /// The answer to a call; `None` if the time expires before it comes.
    async fn ask(&self, function: &str, params: &Value) -> Option<Answer> {
        if Instant::now() >= self.until {
            return None;
        }
        timeout_at(self.until, (self.call)(function, params)).await.ok()
    }

    async fn call(&self, call: &Call) -> Option<Answer> {
        self.ask(call.function(), &call.params()).await
    }

    fn wrong(&mut self, what: &str) {
        self.found.wrong.push(cut(what, MISMATCH));
    }

    fn not_checked(&mut self, what: &str) {
        self.found.not_checked.push(format!("{what} within {:?}", self.limit));
    }

    /// Repeats orders whose outcome is not known, until it is: each has a key.
    async fn settle(&mut self, books: &mut Books) {
        while !books.unknown.is_empty() {
            let mut unknown = mem::take(&mut books.unknown).into_iter();
            while let Some(order) = unknown.next() {
                let call = Call::Order(order);
                let Some(answer) = self.call(&call).await else {
                    let left = 1 + unknown.len() + books.unknown.len();
                    return self.not_checked(&format!("{left} orders have no outcome"));
                };
                books.record(call, &answer);
            }
            sleep(PAUSE).await;
        }
    }

    async fn stock(&mut self, books: &Books) {
        let expected = books.stock.iter().map(|(sku, units)| (sku, *units));
        let call = |sku| Call::Stock { sku };
        let is_so = |result: &Value, units: &Units| {
            whole(&result["stock"]).is_some_and(|stock| units.allow(stock))
        };
        self.compare("stock", "products", expected, call, is_so).await;
    }

    async fn orders(&mut self, books: &Books) {
        let expected = books.orders.iter().map(|(customer, orders)| {
            (customer, orders.iter().rev().take(LISTED).copied().collect::<BTreeSet<Placed>>())
        });
        let call = |customer| Call::List { customer };
        let is_so = |result: &Value, newest: &BTreeSet<Placed>| {
            let orders = result["orders"].as_array();
            let listed = orders.and_then(|orders| orders.iter().map(placed).collect());
            listed.as_ref() == Some(newest)
        };
        self.compare("orders", "customers", expected, call, is_so).await;
    }

    /// Each customer owes what the orders cost.
    async fn balances(&mut self, books: &Books) {
        let expected = books.orders.iter().map(|(customer, orders)| {
            (customer, -orders.iter().map(|(_, total)| total).sum::<i64>())
        });
        let call = |customer| Call::Balance { customer };
        let is_so =
            |result: &Value, balance: &i64| whole(&result["balance"]).as_ref() == Some(balance);
        self.compare("balances", "customers", expected, call, is_so).await;
    }

    /// Asks for `what` of each of these, and whether the result is as expected.
    async fn compare<'a, T: Debug>(
        &mut self,
        what: &str,
        of: &str,
        mut expected: impl ExactSizeIterator<Item = (&'a String, T)>,
        call: impl Fn(String) -> Call,
        is_so: impl Fn(&Value, &T) -> bool,
    ) {
        while let Some((name, expected_of)) = expected.next() {
            let Some(answer) = self.call(&call(name.clone())).await else {
                let left = 1 + expected.len();
                return self.not_checked(&format!("the {what} of {left} {of}"));
            };
            if !result(&answer).is_some_and(|result| is_so(result, &expected_of)) {
                self.wrong(&format!("{what} of {name}: {answer:?}, and not {expected_of:?}"));
            }
        }
    }

    /// Undos at the bank may take a moment longer than the answers: half of the time that is left, for
    /// balances need some, too.
    async fn bank(&mut self, expected: Money) {
        let now = Instant::now();
        let half = now + self.until.saturating_duration_since(now) / 2;
        loop {
            let Some(answer) = self.ask(AUDIT, &json!({})).await else {
                return self.not_checked("what the bank has");
            };
            match money(&answer) {
                Ok(money) if money == expected => return,
                _ if Instant::now() < half => sleep(PAUSE).await,
                Ok(money) => {
                    return self.wrong(&format!("the bank: {money:?}, and not {expected:?}"));
                }
                Err(error) => return self.wrong(&format!("the bank: {error:#}")),
            }
        }
    }
}

fn result(answer: &Answer) -> Option<&Value> {
    match answer {
        Answer::Result(result) => Some(result),
        Answer::Error(_) | Answer::None(_) => None,
    }
}

fn placed(summary: &Value) -> Option<Placed> {
    Some((whole(&summary["order"])?, whole(&summary["total"])?))
}

/// The money of the bank, if its books add up.
fn money(answer: &Answer) -> anyhow::Result<Money> {
    let sums = result(answer).and_then(|audit| {
        Some((whole(&audit["accounts"])?, whole(&audit["held"])?, whole(&audit["shop"])?))
    });
    let (accounts, held, shop) = sums.with_context(|| format!("{AUDIT} answers {answer:?}"))?;
    ensure!(accounts + held == 0, "accounts have {accounts} and {held} is held");
    Ok(Money { shop, held })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;
    use crate::mix::{Order, PRICE};

    const LIMIT: Duration = Duration::from_secs(30);

    /// The time of each call, while the server answers.
    const CALL: Duration = Duration::from_secs(1);

    /// Books of two products and a bank, and 100 orders of which none has an outcome.
    fn books() -> Books {
        let bank = Some(Money { shop: 0, held: 0 });
        let mut books = Books::new(["a", "b"].map(str::to_owned), UNITS, bank);
        for key in 0..100 {
            books.record(order(key), &Answer::None("gone".to_owned()));
        }
        books
    }

    fn order(key: i64) -> Call {
        let items = vec![("a".to_owned(), 1)];
        Call::Order(Order { customer: format!("ann-{key}"), key: key.to_string(), items })
    }

    /// Checks against a server that falls silent after `answers` calls; returns how long that took,
    /// and how many calls there were.
    async fn check_silent(books: &mut Books, answers: u32) -> (Found, Duration, u32) {
        let (start, calls) = (Instant::now(), Cell::new(0));
        let call = async |_: &str, _: &Value| {
            calls.set(calls.get() + 1);
            if calls.get() > answers {
                return pending().await;
            }
            sleep(CALL).await;
            Answer::Result(json!({ "order": calls.get(), "total": PRICE, "stock": UNITS }))
        };
        let told = check(call, books, LIMIT).await;
        (told, start.elapsed(), calls.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_takes_the_time_limit_once_and_what_is_not_checked_is_told() {
        let (told, took, calls) = check_silent(&mut books(), 7).await;
        assert_eq!(
            told.not_checked,
            [
                "93 orders have no outcome within 30s",
                "the stock of 2 products within 30s",
                "the orders of 7 customers within 30s",
                "what the bank has within 30s",
                "the balances of 7 customers within 30s",
            ]
        );
        assert_eq!((took, calls), (LIMIT, 8));

        let nothing_placed = Some(Money { shop: 0, held: 0 });
        let skus = ["a", "b"].map(str::to_owned);
        let mut books = Books::new(skus, UNITS, nothing_placed);
        let (told, took, _) = check_silent(&mut books, 1).await;
        assert_eq!(
            told.not_checked,
            ["the stock of 1 products within 30s", "what the bank has within 30s",]
        );
        assert_eq!(took, LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn long_answers_are_cut() {
        let call = async |_: &str, _: &Value| Answer::Result(json!("x".repeat(100_000)));
        let told = check(call, &mut Books::new(["a".to_owned()], UNITS, None), LIMIT).await;
        let told = told.wrong;
        assert!(told.len() == 1 && told[0].len() < 1100 && told[0].ends_with("..."), "{told:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_takes_the_time_limit_once() {
        let (told, took, calls) = check_silent(&mut books(), u32::MAX).await;
        let Found { wrong, not_checked: told } = told;
        assert_eq!(wrong, Vec::<String>::new());
        assert_eq!(told[0], "70 orders have no outcome within 30s");
        assert_eq!((told.len(), took, calls), (5, LIMIT, 30));
    }
}
