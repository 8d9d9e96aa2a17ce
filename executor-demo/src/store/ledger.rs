//! The accounts and payments of the bank in the database.
//!
//! Money moves and is never made: accounts begin at zero, a customer's goes below it, and the sum of
//! all accounts and of what is held is zero at any time.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Pending, Store, StoreError};

/// The account of the shop. No customer has an empty name.
const SHOP: &str = "";

/// Why the bank refuses a call. It is the first answer to it, and stays the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The customer has no credit for the amount.
    #[error("the customer has no credit for this amount")]
    Declined,
    /// A refund by the key came before.
    #[error("the payment was refunded")]
    Refunded,
    /// The key belongs to a payment of another customer or amount.
    #[error("the key belongs to another payment")]
    KeyReused,
    /// There is no payment by the key.
    #[error("there is no such payment")]
    UnknownPayment,
}

/// The answer of the bank: an amount in cents.
pub type Answer = Result<i64, Denied>;

/// Where the money is, in cents. The three add up to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Balances {
    /// All accounts of customers.
    pub customers: i64,
    /// The account of the shop.
    pub shop: i64,
    /// What payments hold: it left the customers and did not reach the shop.
    pub held: i64,
}

impl Balances {
    /// What all of it adds up to: zero, whatever was paid and refunded.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.customers + self.shop + self.held
    }
}

impl Store {
    /// Holds money of a customer, who may owe `credit` to the bank at the most; `None` is no limit.
    pub fn authorize(
        &self,
        key: String,
        customer: String,
        amount: i64,
        credit: Option<i64>,
    ) -> Pending<Answer> {
        self.write(move |db| authorize(db, &key, &customer, amount, credit))
    }

    /// Moves what a payment holds to the shop.
    pub fn capture(&self, key: String) -> Pending<Answer> {
        self.write(move |db| capture(db, &key))
    }

    /// Gives back what a payment holds or has captured, and remembers its key for what comes late.
    pub fn refund(&self, key: String) -> Pending<i64> {
        self.write(move |db| refund(db, &key))
    }

    /// Where the money is.
    pub fn balances(&self) -> Pending<Balances> {
        self.read(move |db| balances(db))
    }
}

struct Payment {
    customer: String,
    amount: i64,
    stage: String,
}

fn find(db: &Connection, key: &str) -> rusqlite::Result<Option<Payment>> {
    let mut query = db
        .prepare_cached("SELECT customer, amount, stage FROM bank_payment WHERE key = ?1")?;
    let payment = |row: &Row<'_>| {
        Ok(Payment { customer: row.get(0)?, amount: row.get(1)?, stage: row.get(2)? })
    };
    query.query_row([key], payment).optional()
}

fn authorize(
    db: &Connection,
    key: &str,
    customer: &str,
    amount: i64,
    credit: Option<i64>,
) -> Result<Answer, StoreError> {
    if let Some(first) = find(db, key)? {
        let is_same = first.customer == customer && first.amount == amount;
        return Ok(match &*first.stage {
            "refunded" => Err(Denied::Refunded),
            _ if !is_same => Err(Denied::KeyReused),
            "declined" => Err(Denied::Declined),
            _ => Ok(first.amount),
        });
    }
    let mut balance = db.prepare_cached("SELECT balance FROM bank_account WHERE owner = ?1")?;
    let balance: i64 =
        balance.query_row([customer], |row| row.get(0)).optional()?.unwrap_or_default();
    if credit.is_some_and(|credit| balance - amount < -credit) {
        keep(db, key, customer, amount, "declined")?;
        return Ok(Err(Denied::Declined));
    }
    add(db, customer, -amount)?;
    keep(db, key, customer, amount, "held")?;
    Ok(Ok(amount))
}

fn capture(db: &Connection, key: &str) -> Result<Answer, StoreError> {
    let Some(payment) = find(db, key)? else { return Ok(Err(Denied::UnknownPayment)) };
    Ok(match &*payment.stage {
        "refunded" => Err(Denied::Refunded),
        "declined" => Err(Denied::Declined),
        "held" => {
            add(db, SHOP, payment.amount)?;
            keep(db, key, &payment.customer, payment.amount, "captured")?;
            Ok(payment.amount)
        }
        _ => Ok(payment.amount),
    })
}

fn refund(db: &Connection, key: &str) -> Result<i64, StoreError> {
    let Some(payment) = find(db, key)? else {
        keep(db, key, "", 0, "refunded")?;
        return Ok(0);
    };
    let amount = if payment.stage == "declined" { 0 } else { payment.amount };
    if payment.stage == "captured" {
        add(db, SHOP, -amount)?;
    }
    if payment.stage != "refunded" {
        add(db, &payment.customer, amount)?;
        keep(db, key, &payment.customer, amount, "refunded")?;
    }
    Ok(amount)
}

fn add(db: &Connection, owner: &str, amount: i64) -> rusqlite::Result<()> {
    let mut add = db.prepare_cached(
        "INSERT INTO bank_account (owner, balance) VALUES (?1, ?2)
         ON CONFLICT (owner) DO UPDATE SET balance = balance + ?2",
    )?;
    add.execute(params![owner, amount]).map(drop)
}

fn keep(
    db: &Connection,
    key: &str,
    customer: &str,
    amount: i64,
    stage: &str,
) -> rusqlite::Result<()> {
    let mut keep = db.prepare_cached(
        "INSERT INTO bank_payment (key, customer, amount, stage) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET amount = ?3, stage = ?4",
    )?;
    keep.execute(params![key, customer, amount, stage]).map(drop)
}

fn balances(db: &Connection) -> Result<Balances, StoreError> {
    let mut query = db.prepare_cached(
        "SELECT (SELECT ifnull(sum(balance), 0) FROM bank_account WHERE owner <> ?1),
             (SELECT ifnull(sum(balance), 0) FROM bank_account WHERE owner = ?1),
             (SELECT ifnull(sum(amount), 0) FROM bank_payment WHERE stage = 'held')",
    )?;
    let balances = |row: &Row<'_>| {
        Ok(Balances { customers: row.get(0)?, shop: row.get(1)?, held: row.get(2)? })
    };
    Ok(query.query_row([SHOP], balances)?)
}

/// The tables of the bank.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS bank_account (
        owner TEXT PRIMARY KEY,
        balance INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS bank_payment (
        key TEXT PRIMARY KEY,
        customer TEXT NOT NULL,
        amount INTEGER NOT NULL CHECK (amount >= 0),
        stage TEXT NOT NULL CHECK (stage IN ('held', 'captured', 'refunded', 'declined'))
    ) WITHOUT ROWID;
";
