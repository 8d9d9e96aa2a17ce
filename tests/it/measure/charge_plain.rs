//! The same as `charge.rs` with actix-web and tokio.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::{HttpResponse, ResponseError, web};
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::{sleep, timeout};

use super::errors::{BankError, LedgerDown};
use super::world::{Bank, Charge, Charged, Ledger, Tx, random_key};

pub(crate) struct App {
    pub(crate) bank: Bank,
    pub(crate) ledger: Ledger,
    pub(crate) bank_calls: Semaphore,
    pub(crate) customers: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChargeError {
    #[error(transparent)]
    Bank(#[from] BankError),
    #[error(transparent)]
    Ledger(#[from] LedgerDown),
    #[error("the bank took too long")]
    Timeout,
}

impl ResponseError for ChargeError {
    fn error_response(&self) -> HttpResponse {
        let code = match self {
            Self::Bank(BankError::BankUnavailable) => "BankUnavailable",
            Self::Bank(BankError::CardDeclined) => "CardDeclined",
            Self::Ledger(LedgerDown) => "LedgerDown",
            Self::Timeout => "InternalError",
        };
        HttpResponse::Ok().json(json!({ "e": code }))
    }
}

/// Refunds unless it is told that there is nothing to refund: also when the handler is dropped.
struct Refund {
    app: web::Data<App>,
    key: String,
    is_due: bool,
}

impl Drop for Refund {
    fn drop(&mut self) {
        if self.is_due {
            let (app, key) = (self.app.clone(), mem::take(&mut self.key));
            actix_rt::spawn(async move {
                if let Err(error) = app.bank.refund(&key).await {
                    tracing::error!(%error, key, "a charge was not refunded");
                }
            });
        }
    }
}

pub(crate) async fn charge(
    app: web::Data<App>,
    params: web::Json<Charge>,
) -> Result<web::Json<Charged>, ChargeError> {
    let customer = customer_lock(&app, &params.customer);
    let _turn = customer.lock().await;
    let mut refund = Refund { app: app.clone(), key: random_key(), is_due: false };
    let (tx, attempts) = ask_bank(&app, &params, &mut refund).await?;
    let charge = app.ledger.record(&params.customer, params.amount, tx).await?;
    refund.is_due = false;
    Ok(web::Json(Charged { charge, attempts }))
}

async fn ask_bank(
    app: &App,
    params: &Charge,
    refund: &mut Refund,
) -> Result<(Tx, u32), ChargeError> {
    let mut pause = Duration::from_millis(50);
    let mut is_unknown = false;
    for attempt in 1.. {
        let place = app.bank_calls.acquire().await;
        refund.is_due = true;
        let call = app.bank.charge(&params.customer, params.amount, &refund.key);
        let error = match timeout(Duration::from_millis(300), call).await {
            Ok(Ok(tx)) => return Ok((tx, attempt)),
            Ok(Err(error)) if error.is_transient() => {
                is_unknown = true;
                error.into()
            }
            Ok(Err(error)) => {
                refund.is_due = is_unknown;
                return Err(error.into());
            }
            Err(_) => {
                is_unknown = true;
                ChargeError::Timeout
            }
        };
        if attempt == 4 {
            return Err(error);
        }
        drop(place);
        sleep(pause).await;
        pause *= 2;
    }
    unreachable!("the last attempt returns")
}

fn customer_lock(app: &App, customer: &str) -> Arc<AsyncMutex<()>> {
    let mut customers = app.customers.lock().unwrap_or_else(PoisonError::into_inner);
    customers.retain(|_, lock| Arc::strong_count(lock) > 1);
    Arc::clone(customers.entry(customer.to_owned()).or_default())
}
