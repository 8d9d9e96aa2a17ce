//! The check of the server against the books.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::books::{Books, Money, Placed, whole};
use super::calls::{Call, LISTED};
use super::client::{Answer, Client};
use super::measured::cut;

const AUDIT: &str = "demo.bank:1.0:audit";

/// Units of each product when a run begins: enough for the hottest one.
const UNITS: i64 = 1_000_000;

/// The pause before something is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The most mismatches that are reported, and their characters.
const TOLD: usize = 20;
const MISMATCH: usize = 1024;

/// Puts these products on the shelf, looks at what the bank has, and opens books about them.
pub(super) async fn open_books(client: &Client, skus: Vec<String>) -> anyhow::Result<Books> {
    for sku in &skus {
        let call = Call::Restock { sku: sku.clone(), count: UNITS };
        let answer = client.call(call.function(), &call.params()).await;
        ensure!(result(&answer).is_some(), "{} answers {answer:?}", call.function());
    }
    let answer = client.call(AUDIT, &json!({})).await;
    let has_no_bank = answer == Answer::Error("UnknownInterface".to_owned());
    let bank = if has_no_bank { None } else { Some(money(&answer)?) };
    Ok(Books::new(skus.into_iter(), UNITS, bank))
}

/// The findings of a check, a line each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Differences of the server from the books.
    pub(super) wrong: Vec<String>,
    /// Checks that there was no time for.
    pub(super) not_checked: Vec<String>,
}

/// Asks until nothing is unknown, and compares what the server has with the books. It takes so long at
/// the most.
pub(super) async fn check(
    call: impl AsyncFn(&str, &Value) -> Answer,
    books: &mut Books,
    limit: Duration,
) -> Found {
    let until = Instant::now() + limit;
    let mut check = Check { call, until, found: Vec::new(), not_checked: Vec::new() };
    check.settle(books).await;
    check.stock(books).await;
    check.orders(books).await;
    check.bank(books).await;
    check.balances(books).await;
    check.found(limit)
}

/// A check that goes on.
struct Check<C> {
    /// Calls a function with parameters.
    call: C,
    until: Instant,
    /// Differences of the server from the books.
    found: Vec<String>,
    /// Checks that there was no time for.
    not_checked: Vec<String>,
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

    /// Repeats orders whose outcome is not known, until it is: each has a key.
    async fn settle(&mut self, books: &mut Books) {
        loop {
            let mut unknown = books.take_unknown().into_iter();
            if unknown.len() == 0 {
                return;
            }
            while let Some(order) = unknown.next() {
                let call = Call::Order(order);
                let Some(answer) = self.call(&call).await else {
                    let left = 1 + unknown.len() + books.take_unknown().len();
                    return self.not_checked.push(format!("{left} orders have no outcome"));
                };
                books.record(call, &answer);
            }
            sleep(PAUSE).await;
        }
    }

    async fn stock(&mut self, books: &Books) {
        let mut products = books.stock();
        while let Some((sku, units)) = products.next() {
            let Some(answer) = self.call(&Call::Stock { sku: sku.to_owned() }).await else {
                let left = 1 + products.count();
                return self.not_checked.push(format!("the stock of {left} products"));
            };
            let stock = result(&answer).and_then(|result| whole(&result["stock"]));
            if stock.is_none_or(|stock| !units.allow(stock)) {
                self.found.push(format!("stock of {sku}: {answer:?}, and not {units:?}"));
            }
        }
    }

    async fn orders(&mut self, books: &Books) {
        let mut customers = books.orders();
        while let Some((customer, expected)) = customers.next() {
            let Some(answer) = self.call(&Call::List { customer: customer.to_owned() }).await
            else {
                let left = 1 + customers.count();
                return self.not_checked.push(format!("the orders of {left} customers"));
            };
            let newest: BTreeSet<Placed> = expected.iter().rev().take(LISTED).copied().collect();
            let listed = result(&answer)
                .and_then(|result| result["orders"].as_array()?.iter().map(placed).collect());
            if listed.as_ref() != Some(&newest) {
                self.found.push(format!("orders of {customer}: {answer:?}, and not {newest:?}"));
            }
        }
    }

    /// Undos at the bank may take a moment longer than the answers: half of the time that is left, for balances need
    /// some, too.
    async fn bank(&mut self, books: &Books) {
        let Some(expected) = books.bank() else { return };
        let now = Instant::now();
        let half = now + self.until.saturating_duration_since(now) / 2;
        loop {
            let Some(answer) = self.ask(AUDIT, &json!({})).await else {
                return self.not_checked.push("what the bank has".to_owned());
            };
            match money(&answer) {
                Ok(money) if money == expected => return,
                _ if Instant::now() < half => sleep(PAUSE).await,
                Ok(money) => {
                    return self.found.push(format!("the bank: {money:?}, and not {expected:?}"));
                }
                Err(error) => return self.found.push(format!("the bank: {error:#}")),
            }
        }
    }

    /// Each customer owes what the orders cost.
    async fn balances(&mut self, books: &Books) {
        if books.bank().is_none() {
            return;
        }
        let mut customers = books.orders();
        while let Some((customer, orders)) = customers.next() {
            let Some(answer) = self.call(&Call::Balance { customer: customer.to_owned() }).await
            else {
                let left = 1 + customers.count();
                return self.not_checked.push(format!("the balances of {left} customers"));
            };
            let balance = result(&answer).and_then(|result| whole(&result["balance"]));
            let owed: i64 = orders.iter().map(|(_, total)| total).sum();
            if balance != Some(-owed) {
                self.found.push(format!("balance of {customer}: {answer:?}, and not -{owed}"));
            }
        }
    }

    /// The report of the check.
    fn found(self, limit: Duration) -> Found {
        let mut wrong: Vec<String> = self.found.iter().map(|it| cut(it, MISMATCH)).collect();
        if wrong.len() > TOLD {
            let more = wrong.len() - TOLD;
            wrong.truncate(TOLD);
            wrong.push(format!("and {more} more"));
        }
        let not_checked = self.not_checked.into_iter();
        let not_checked = not_checked.map(|what| format!("{what} within {limit:?}")).collect();
        Found { wrong, not_checked }
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
    use crate::load::calls::{Order, PRICE};

    const LIMIT: Duration = Duration::from_secs(30);

    /// The time of each call, while the server answers.
    const CALL: Duration = Duration::from_secs(1);

    /// Books of two products and a bank, and 100 orders of which none has an outcome.
    fn books() -> Books {
        let bank = Some(Money { shop: 0, held: 0 });
        let mut books = Books::new(["a", "b"].map(str::to_owned).into_iter(), UNITS, bank);
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
        let skus = ["a", "b"].map(str::to_owned).into_iter();
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
        let told =
            check(call, &mut Books::new(["a".to_owned()].into_iter(), UNITS, None), LIMIT).await;
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
