//! The books of the bank: accounts and payments, changed in transactions of the store.
//!
//! Customers have credit, so their balances are zero or less. Every amount that leaves an account is
//! held or in another account, so that all of them add up to zero.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::BankError;
use crate::store::StoreError;

/// The account of the shop; no customer has an empty name.
const SHOP: &str = "";

/// A payment that a customer shall make.
#[derive(Clone, Debug)]
pub(super) struct NewPayment {
    pub(super) key: String,
    pub(super) customer: String,
    pub(super) amount: i64,
}

/// The sums of the books, in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct Audit {
    /// Of all accounts, including the shop's.
    pub accounts: i64,
    /// Of the payments that are neither captured nor refunded.
    pub held: i64,
    /// The balance of the shop.
    pub shop: i64,
}

impl Audit {
    /// Whether no money is missing and none too much.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.accounts + self.held == 0
    }
}

/// The answer of the bank, of a transaction that is kept in either case.
pub(super) type Answer = Result<i64, BankError>;

/// Where a payment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaymentPhase {
    Declined,
    Held,
    Captured,
    Refunded,
}

impl PaymentPhase {
    const ALL: [Self; 4] = [Self::Declined, Self::Held, Self::Captured, Self::Refunded];

    fn name(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::Held => "held",
            Self::Captured => "captured",
            Self::Refunded => "refunded",
        }
    }
}

/// A payment in the books. One that was refunded before it came has no customer.
struct BookedPayment {
    customer: Option<String>,
    amount: i64,
    stage: PaymentPhase,
}

/// Holds an amount, unless the payment is known already.
pub(super) fn authorize(
    db: &Connection,
    new: &NewPayment,
    credit: Option<i64>,
) -> Result<Answer, StoreError> {
    if let Some(known) = find(db, &new.key)? {
        return Ok(first_answer(&known, new));
    }
    // beyond the range of the books there is no credit
    let left = balance(db, &new.customer)?.checked_sub(new.amount);
    let is_covered = left.is_some_and(|left| credit.is_none_or(|credit| left >= -credit));
    let stage = if is_covered { PaymentPhase::Held } else { PaymentPhase::Declined };
    let mut insert = db.prepare_cached(
        "INSERT INTO bank_payment (key, customer, amount, stage) VALUES (?1, ?2, ?3, ?4)",
    )?;
    insert.execute(params![new.key, new.customer, new.amount, stage.name()])?;
    if !is_covered {
        return Ok(Err(BankError::Declined));
    }
    add(db, &new.customer, -new.amount)?;
    Ok(Ok(new.amount))
}

/// The answer to a repeated authorization.
fn first_answer(known: &BookedPayment, new: &NewPayment) -> Answer {
    let is_same = known.customer.as_ref() == Some(&new.customer) && known.amount == new.amount;
    match known.stage {
        PaymentPhase::Refunded => Err(BankError::Refunded),
        _ if !is_same => Err(BankError::KeyReused),
        PaymentPhase::Declined => Err(BankError::Declined),
        PaymentPhase::Held | PaymentPhase::Captured => Ok(known.amount),
    }
}

/// Pays the held amount to the shop.
pub(super) fn capture(db: &Connection, key: &str) -> Result<Answer, StoreError> {
    let Some(payment) = find(db, key)? else { return Ok(Err(BankError::UnknownPayment)) };
    match payment.stage {
        PaymentPhase::Declined => return Ok(Err(BankError::Declined)),
        PaymentPhase::Refunded => return Ok(Err(BankError::Refunded)),
        PaymentPhase::Captured => {}
        PaymentPhase::Held if balance(db, SHOP)?.checked_add(payment.amount).is_none() => {
            return Ok(Err(BankError::Declined));
        }
        PaymentPhase::Held => {
            add(db, SHOP, payment.amount)?;
            set_stage(db, key, PaymentPhase::Captured)?;
        }
    }
    Ok(Ok(payment.amount))
}

/// Pays a held or captured amount back to the customer. An unknown payment is refused from now on.
pub(super) fn refund(db: &Connection, key: &str) -> Result<Answer, StoreError> {
    let Some(payment) = find(db, key)? else {
        let mut insert = db.prepare_cached(
            "INSERT INTO bank_payment (key, customer, amount, stage) VALUES (?1, NULL, 0, ?2)",
        )?;
        insert.execute([key, PaymentPhase::Refunded.name()])?;
        return Ok(Ok(0));
    };
    match payment.stage {
        PaymentPhase::Declined => return Ok(Ok(0)),
        PaymentPhase::Refunded => return Ok(Ok(payment.amount)),
        PaymentPhase::Captured => add(db, SHOP, -payment.amount)?,
        PaymentPhase::Held => {}
    }
    if let Some(customer) = &payment.customer {
        add(db, customer, payment.amount)?;
    }
    set_stage(db, key, PaymentPhase::Refunded)?;
    Ok(Ok(payment.amount))
}

/// Adds the books up.
pub(super) fn audit(db: &Connection) -> Result<Audit, StoreError> {
    let mut sums = db.prepare_cached(
        "SELECT (SELECT ifnull(sum(balance), 0) FROM bank_account),
                (SELECT ifnull(sum(amount), 0) FROM bank_payment WHERE stage = 'held')",
    )?;
    let (accounts, held) = sums.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Audit { accounts, held, shop: balance(db, SHOP)? })
}

fn find(db: &Connection, key: &str) -> Result<Option<BookedPayment>, StoreError> {
    let mut query =
        db.prepare_cached("SELECT customer, amount, stage FROM bank_payment WHERE key = ?1")?;
    Ok(query.query_row([key], payment).optional()?)
}

fn payment(row: &Row<'_>) -> rusqlite::Result<BookedPayment> {
    let name: String = row.get(2)?;
    let stage = PaymentPhase::ALL.into_iter().find(|stage| stage.name() == name);
    let stage = stage.ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(BookedPayment { customer: row.get(0)?, amount: row.get(1)?, stage })
}

/// The balance of an account.
pub(super) fn balance(db: &Connection, owner: &str) -> Result<i64, StoreError> {
    let mut query = db.prepare_cached("SELECT balance FROM bank_account WHERE owner = ?1")?;
    Ok(query.query_row([owner], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Moves an amount into an account, which is opened with the first one.
fn add(db: &Connection, owner: &str, amount: i64) -> Result<(), StoreError> {
    let mut upsert = db.prepare_cached(
        "INSERT INTO bank_account (owner, balance) VALUES (?1, ?2)
         ON CONFLICT (owner) DO UPDATE SET balance = balance + ?2",
    )?;
    upsert.execute(params![owner, amount])?;
    Ok(())
}

fn set_stage(db: &Connection, key: &str, stage: PaymentPhase) -> Result<(), StoreError> {
    let mut update = db.prepare_cached("UPDATE bank_payment SET stage = ?2 WHERE key = ?1")?;
    update.execute([key, stage.name()])?;
    Ok(())
}
