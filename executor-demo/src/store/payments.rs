//! The payments of the shop: which of them an order was placed for, and which it owes back.
//!
//! A payment is open until its order is placed or it is abandoned, and each of the two forbids the
//! other. So nothing is sold unpaid and nothing sold is paid back, whenever a request is cut.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use super::instances;
use super::orders::NewOrder;

/// The owner of the payments of durable requests, which end or are undone whatever process does it.
const DURABLE: &str = "";

/// Opens a payment, and returns its key. The process `owner` looks after it, unless the request is durable. A repeated
/// order gets the payment that it has left open, so that it is not paid twice after a crash, and a repeated step
/// that which it has opened.
pub(super) fn open(
    db: &Connection,
    order: &NewOrder,
    amount: i64,
    owner: Option<&str>,
    step: &str,
) -> Result<String, StoreError> {
    if let Some(owner) = owner {
        instances::enter(db, owner)?;
    }
    let Some(key) = of_step(db, step)? else {
        return open_for(db, order, amount, owner.unwrap_or(DURABLE), step);
    };
    // the prices of now count: the bank has not been asked, because the step that opens it had no end
    let mut update =
        db.prepare_cached("UPDATE shop_payment SET amount = ?2 WHERE key = ?1 AND state = 'open'")?;
    update.execute(params![key, amount])?;
    Ok(key)
}

/// The payment that this step has opened, if it has, and no repeated order has taken it over.
pub(super) fn of_step(db: &Connection, step: &str) -> Result<Option<String>, StoreError> {
    let mut query = db.prepare_cached("SELECT key FROM shop_payment WHERE step = ?1")?;
    Ok(query.query_row([step], |row| row.get(0)).optional()?)
}

fn open_for(
    db: &Connection,
    order: &NewOrder,
    amount: i64,
    owner: &str,
    step: &str,
) -> Result<String, StoreError> {
    let mut left_open = db.prepare_cached(
        "UPDATE shop_payment SET owner = ?4, step = ?5 WHERE key = (
             SELECT key FROM shop_payment
             WHERE customer = ?1 AND order_key = ?2 AND amount = ?3 AND state = 'open'
         ) RETURNING key",
    )?;
    let bound = params![order.customer, order.key, amount, owner, step];
    if let Some(key) = left_open.query_row(bound, |row| row.get(0)).optional()? {
        return Ok(key);
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO shop_payment (key, customer, order_key, amount, owner, step, state)
         VALUES (lower(hex(randomblob(16))), ?1, ?2, ?3, ?4, ?5, 'open') RETURNING key",
    )?;
    Ok(insert.query_row(bound, |row| row.get(0))?)
}

/// Whether a payment is neither taken for an order nor abandoned.
pub(super) fn is_open(db: &Connection, key: &str) -> Result<bool, StoreError> {
    let mut query =
        db.prepare_cached("SELECT 1 FROM shop_payment WHERE key = ?1 AND state = 'open'")?;
    Ok(query.exists([key])?)
}

/// Takes an open payment for an order.
pub(super) fn sell(db: &Connection, key: &str) -> Result<(), StoreError> {
    let mut update = db.prepare_cached(
        "UPDATE shop_payment SET state = 'sold' WHERE key = ?1 AND state = 'open'",
    )?;
    if update.execute([key])? == 0 { Err(StoreError::GivenUp) } else { Ok(()) }
}

/// Gives a payment up, unless its order was placed; returns whether it is owed back.
pub(super) fn give_up(db: &Connection, key: &str) -> Result<bool, StoreError> {
    let mut update = db.prepare_cached(
        "UPDATE shop_payment SET state = 'owed' WHERE key = ?1 AND state IN ('open', 'owed')",
    )?;
    Ok(update.execute([key])? > 0)
}

/// Notes that a payment was paid back.
pub(super) fn repaid(db: &Connection, key: &str) -> Result<(), StoreError> {
    let mut update = db.prepare_cached(
        "UPDATE shop_payment SET state = 'repaid' WHERE key = ?1 AND state = 'owed'",
    )?;
    update.execute([key])?;
    Ok(())
}

/// The payments that are owed back. One that is open, and whose owner has ended, is abandoned, and so is a payment of
/// one of these steps.
pub(super) fn owed(db: &Connection, left: &[String]) -> Result<Vec<String>, StoreError> {
    let mut of_step = db.prepare_cached(
        "UPDATE shop_payment SET state = 'owed' WHERE step = ?1 AND state = 'open'",
    )?;
    for step in left {
        of_step.execute([step])?;
    }
    let mut give_up = db.prepare_cached(
        "UPDATE shop_payment SET state = 'owed'
         WHERE state = 'open' AND owner <> ?1 AND owner NOT IN (SELECT id FROM shop_instance)",
    )?;
    give_up.execute([DURABLE])?;
    let mut query = db.prepare_cached("SELECT key FROM shop_payment WHERE state = 'owed'")?;
    Ok(query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::path::Path;
    use std::sync::Arc;

    use asyncsteps::Undo;

    use super::super::{NewOrder, Store, StoreError, Terms};
    use crate::bank::{Bank, LinkOptions};
    use crate::payments::Payments;

    /// A store with ten apples, and an order of one of them.
    async fn shop(key: Option<&str>) -> (Store, Arc<NewOrder>) {
        let store = Store::open(Path::new(":memory:")).expect("a database");
        store.restock("apple", 10, None).await.expect("restocked");
        let items = BTreeMap::from([("apple".into(), 1)]);
        let key = key.map(str::to_owned);
        (store, Arc::new(NewOrder { customer: "ann".to_owned(), items, key }))
    }

    fn terms(payment: &str) -> Terms {
        let prices = HashMap::from([("apple".into(), 5)]);
        Terms { prices, payment: Some(payment.to_owned()) }
    }

    #[actix_rt::test]
    async fn a_payment_is_taken_or_given_up_and_never_both() {
        let (store, order) = shop(None).await;
        let key = store.open_payment(&order, 5, "me", "step").await.expect("opened");
        let placed = store.place_order(&order, terms(&key), "first").await.expect("placed");
        assert_eq!(placed.total, 5);
        assert!(!store.give_up_payment(&key).await.expect("asked"), "the order stands");

        let key = store.open_payment(&order, 5, "me", "other").await.expect("opened");
        for _ in 0..2 {
            assert!(store.give_up_payment(&key).await.expect("given up"), "until it is repaid");
        }
        let late = store.place_order(&order, terms(&key), "late").await;
        assert!(matches!(late, Err(StoreError::GivenUp)), "{late:?}");
        assert_eq!(store.stock("apple").await.expect("known"), Some(9), "nothing is taken");
        assert_eq!(store.owed_payments().await.expect("a list"), [&*key]);
        store.payment_repaid(&key).await.expect("noted");
        assert!(!store.give_up_payment(&key).await.expect("asked"), "it is repaid");
        assert!(store.owed_payments().await.expect("a list").is_empty());
    }

    #[actix_rt::test]
    async fn what_a_process_that_ended_has_left_open_is_owed_unless_the_order_is_repeated() {
        let (store, order) = shop(Some("k1")).await;
        let (_, other) = shop(Some("k2")).await;
        let repeated = store.open_payment(&order, 5, "dead", "first").await.expect("opened");
        let left = store.open_payment(&other, 5, "dead", "second").await.expect("opened");
        assert!(store.owed_payments().await.expect("a list").is_empty(), "its owner may live");
        assert_eq!(store.open_payment(&order, 5, "me", "third").await.expect("opened"), repeated);
        store.instances_ended(vec!["dead".to_owned()]).await.expect("noted");
        assert_eq!(store.owed_payments().await.expect("a list"), [left]);
        let placed = store.place_order(&order, terms(&repeated), "first").await;
        placed.expect("it was not given up");
    }

    #[actix_rt::test]
    async fn a_repeated_order_takes_the_payment_that_it_left_open() {
        let (store, order) = shop(Some("k1")).await;
        let open = async |amount, step| {
            store.open_payment(&order, amount, "me", step).await.expect("opened")
        };
        let key = open(5, "a").await;
        assert_eq!(open(5, "b").await, key);
        assert_ne!(open(6, "c").await, key, "the price has changed");
        store.place_order(&order, terms(&key), "first").await.expect("placed");
        assert_ne!(open(5, "d").await, key, "it is taken");
        let again =
            store.place_order(&order, terms(&key), "again").await.expect("the first answer");
        assert_eq!(again.order, 1);
        let other = store.place_order(&order, terms(&open(6, "e").await), "other").await;
        assert!(matches!(other, Err(StoreError::GivenUp)), "its payment goes back: {other:?}");
    }

    #[actix_rt::test]
    async fn what_a_step_that_was_cut_has_opened_is_found_and_given_up() {
        let (store, order) = shop(None).await;
        let store = store.for_durable_requests();
        let payments = Payments::new(
            store.clone(),
            Some(Bank::new(store.clone(), None, LinkOptions::default())),
        );
        let undo = async |step| payments.undo(step, Undo::Unknown).await.expect("undone");
        let key = store.open_payment(&order, 5, "me", "cut").await.expect("opened");
        undo("never begun").await;
        assert!(store.place_order(&order, terms(&key), "place").await.is_ok());
        let key = store.open_payment(&order, 5, "me", "cut too").await.expect("opened");
        undo("cut too").await;
        let late = store.place_order(&order, terms(&key), "late").await;
        assert!(matches!(late, Err(StoreError::GivenUp)), "{late:?}");
        assert!(!store.give_up_payment(&key).await.expect("asked"), "it is repaid");
    }

    #[actix_rt::test]
    async fn a_step_of_a_durable_request_that_runs_again_changes_nothing() {
        let (store, order) = shop(None).await;
        let store = store.for_durable_requests();
        let open = async |amount| store.open_payment(&order, amount, "me", "open").await;
        let key = open(5).await.expect("opened");
        assert_eq!(open(6).await.expect("opened before"), key, "although the price has changed");
        assert_eq!(
            store.payment_of_step("open").expect("it is durable").await.expect("asked"),
            Some(key.clone())
        );
        store.instances_ended(vec!["me".to_owned()]).await.expect("noted");
        assert!(store.owed_payments().await.expect("a list").is_empty(), "no process has it");
        for _ in 0..2 {
            let placed = store.place_order(&order, terms(&key), "place").await;
            assert_eq!(placed.expect("placed").order, 1);
        }
        assert_eq!(store.stock("apple").await.expect("known"), Some(9));
        assert_eq!(open(5).await.expect("opened before"), key, "also when it is sold");
        assert!(!store.give_up_payment(&key).await.expect("asked"), "the order stands");
    }
}
