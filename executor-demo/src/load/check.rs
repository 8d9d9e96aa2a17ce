//! Whether the server has what the books say.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::books::{Books, Money, Placed, whole};
use super::calls::{Call, LISTED};
use super::client::{Answer, Client};

const AUDIT: &str = "demo.bank:1.0:audit";

/// Units of each product when a run begins: enough for the hottest one.
const UNITS: i64 = 1_000_000;

/// The pause before something is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The most mismatches that are told.
const TOLD: usize = 20;

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

/// Makes sure that nothing is unknown, and gives what the server has otherwise than the books; for so
/// long at the most.
pub(super) async fn check(client: &Client, books: &mut Books, patience: Duration) -> Vec<String> {
    let until = Instant::now() + patience;
    let mut found = Vec::new();
    settle(client, books, until, &mut found).await;
    check_stock(client, books, &mut found).await;
    check_orders(client, books, &mut found).await;
    check_bank(client, books, until, &mut found).await;
    check_balances(client, books, &mut found).await;
    if found.len() > TOLD {
        let more = found.len() - TOLD;
        found.truncate(TOLD);
        found.push(format!("and {more} more"));
    }
    found
}

/// Repeats orders whose outcome is not known, until it is: each has a key.
async fn settle(client: &Client, books: &mut Books, until: Instant, found: &mut Vec<String>) {
    let mut unknown = books.take_unknown();
    while !unknown.is_empty() {
        if Instant::now() >= until {
            return found.push(format!("{} orders have no outcome", unknown.len()));
        }
        for call in unknown.into_iter().map(Call::Order) {
            let answer = client.call(call.function(), &call.params()).await;
            books.record(call, &answer);
        }
        unknown = books.take_unknown();
        sleep(PAUSE).await;
    }
}

async fn check_stock(client: &Client, books: &Books, found: &mut Vec<String>) {
    for (sku, units) in books.stock() {
        let call = Call::Stock { sku: sku.to_owned() };
        let answer = client.call(call.function(), &call.params()).await;
        let stock = result(&answer).and_then(|result| whole(&result["stock"]));
        if stock.is_none_or(|stock| !units.allow(stock)) {
            found.push(format!("stock of {sku}: {answer:?}, and not {units:?}"));
        }
    }
}

async fn check_orders(client: &Client, books: &Books, found: &mut Vec<String>) {
    for (customer, expected) in books.orders() {
        let call = Call::List { customer: customer.to_owned() };
        let answer = client.call(call.function(), &call.params()).await;
        let newest: BTreeSet<Placed> = expected.iter().rev().take(LISTED).copied().collect();
        let listed = result(&answer)
            .and_then(|result| result["orders"].as_array()?.iter().map(placed).collect());
        if listed.as_ref() != Some(&newest) {
            found.push(format!("orders of {customer}: {answer:?}, and not {newest:?}"));
        }
    }
}

/// What the bank undoes may take a moment longer than the answers.
async fn check_bank(client: &Client, books: &Books, until: Instant, found: &mut Vec<String>) {
    let Some(expected) = books.bank() else { return };
    loop {
        let money = money(&client.call(AUDIT, &json!({})).await);
        match money {
            Ok(money) if money == expected => return,
            _ if Instant::now() < until => sleep(PAUSE).await,
            Ok(money) => return found.push(format!("the bank: {money:?}, and not {expected:?}")),
            Err(error) => return found.push(format!("the bank: {error:#}")),
        }
    }
}

/// Each customer owes what the orders cost.
async fn check_balances(client: &Client, books: &Books, found: &mut Vec<String>) {
    if books.bank().is_none() {
        return;
    }
    for (customer, orders) in books.orders() {
        let call = Call::Balance { customer: customer.to_owned() };
        let answer = client.call(call.function(), &call.params()).await;
        let balance = result(&answer).and_then(|result| whole(&result["balance"]));
        let owed: i64 = orders.iter().map(|(_, total)| total).sum();
        if balance != Some(-owed) {
            found.push(format!("balance of {customer}: {answer:?}, and not -{owed}"));
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

/// What the bank has, if its books add up.
fn money(answer: &Answer) -> anyhow::Result<Money> {
    let sums = result(answer).and_then(|audit| {
        Some((whole(&audit["accounts"])?, whole(&audit["held"])?, whole(&audit["shop"])?))
    });
    let (accounts, held, shop) = sums.with_context(|| format!("{AUDIT} answers {answer:?}"))?;
    ensure!(accounts + held == 0, "accounts have {accounts} and {held} is held");
    Ok(Money { shop, held })
}
