//! Both versions behind one interface, so that they can be tested by the same scenarios.

use std::time::Duration;

use actix_web::{ResponseError, body, web};
use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sync::mutex::Options;
use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::{Loader, Source};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::world::{Bank, Charge, Charged, Failed, Ledger, Notify, Post};
use super::{charge, charge_plain, notify, notify_plain};

/// Calls of the bank at once.
const CALLS: u32 = 10;

const PAYMENTS: &str = r#"{
    "iface": "acme.payments", "version": "1.0", "ftn3rev": "1.9",
    "funcs": {
        "charge": {
            "params": { "customer": "string", "amount": "integer" },
            "result": { "charge": "string", "attempts": "number" },
            "throws": [ "CardDeclined", "BankUnavailable", "LedgerDown" ]
        }
    }
}"#;

const NEWS: &str = r#"{
    "iface": "acme.news", "version": "1.0", "ftn3rev": "1.9",
    "types": {
        "Names": { "type": "array", "elemtype": "string" },
        "Failed": { "type": "map", "fields": { "customer": "string", "error": "string" } },
        "Failures": { "type": "array", "elemtype": "Failed" }
    },
    "funcs": {
        "notify": { "params": { "customers": "Names", "text": "string" }, "result": "Failures" }
    }
}"#;

/// What a caller gets: the result, or the code of the error.
pub(crate) type Answer<T> = Result<T, String>;

/// The service that takes charges.
#[derive(Clone)]
pub(crate) enum Payments {
    Steps(Executor),
    Plain(web::Data<charge_plain::App>),
}

impl Payments {
    /// Both versions, each with a bank and a ledger of its own.
    pub(crate) fn both(make: impl Fn() -> (Bank, Ledger)) -> [(Self, Bank); 2] {
        let (bank, ledger) = make();
        let steps = (Self::steps(bank.clone(), ledger, None), bank);
        let (bank, ledger) = make();
        [steps, (Self::plain(bank.clone(), ledger), bank)]
    }

    /// The version in steps, with a limit of each request if it is told one.
    pub(crate) fn steps(bank: Bank, ledger: Ledger, limit: Option<Duration>) -> Self {
        let bank_calls = Mutex::new(Options { max: CALLS, ..Options::default() });
        let customers = Mutex::new(Options::default());
        let payments = charge::Payments { bank, ledger, bank_calls, customers };
        let source = Source::texts([("acme.payments-1.0-iface.json", PAYMENTS)]);
        let id = "acme.payments:1.0".parse().expect("a name");
        let definition = Loader::new([source]).load(&id).expect("a definition");
        let mut builder = Executor::builder();
        if let Some(limit) = limit {
            builder = builder.request_timeout(limit);
        }
        let executor = builder
            .service(definition, payments, |functions| {
                functions.on("charge", charge::Payments::charge);
            })
            .build();
        Self::Steps(executor.expect("the types fit"))
    }

    pub(crate) fn plain(bank: Bank, ledger: Ledger) -> Self {
        let bank_calls = Semaphore::new(CALLS as usize);
        let app = charge_plain::App { bank, ledger, bank_calls, customers: Default::default() };
        Self::Plain(web::Data::new(app))
    }

    /// A charge, which ends when it is dropped, as for a client that leaves.
    pub(crate) async fn charge(&self, customer: &str) -> Answer<Charged> {
        let params = Charge { customer: customer.to_owned(), amount: 5 };
        match self {
            Self::Steps(executor) => {
                let charged = executor.call_as_system("acme.payments:1.0:charge", params);
                charged.await.map_err(|error| error.code().to_owned())
            }
            Self::Plain(app) => match charge_plain::charge(app.clone(), web::Json(params)).await {
                Ok(charged) => Ok(charged.into_inner()),
                Err(error) => Err(code(&error).await),
            },
        }
    }

    /// A charge with an outer limit: that of the executor, or one around the handler.
    pub(crate) async fn charge_within(&self, limit: Duration) -> Answer<Charged> {
        match self {
            Self::Steps(_) => self.charge("ann").await,
            Self::Plain(_) => {
                let charged = timeout(limit, self.charge("ann")).await;
                charged.unwrap_or_else(|_| Err("InternalError".to_owned()))
            }
        }
    }
}

/// The code that a client of the plain version sees.
async fn code(error: &impl ResponseError) -> String {
    let body = body::to_bytes(error.error_response().into_body()).await;
    let body = body.unwrap_or_else(|_| panic!("{error:?} has no body"));
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    answer["e"].as_str().expect("a code").to_owned()
}

/// Tells customers, by both versions; gives who was not told, and how many letters were under way.
pub(crate) async fn notify_both(customers: &[String]) -> [(Vec<Failed>, u32); 2] {
    let params = || Notify { customers: customers.to_vec(), text: "sale".to_owned() };
    let post = Post::default();
    let source = Source::texts([("acme.news-1.0-iface.json", NEWS)]);
    let id = "acme.news:1.0".parse().expect("a name");
    let definition = Loader::new([source]).load(&id).expect("a definition");
    let news = notify::News { post: post.clone() };
    let executor = Executor::builder()
        .service(definition, news, |functions| _ = functions.on("notify", notify::notify))
        .build()
        .expect("the types fit");
    let failed = executor.call_as_system("acme.news:1.0:notify", params()).await;
    let steps = (failed.expect("all are tried"), post.most());

    let post = Post::default();
    let app = web::Data::new(notify_plain::App { post: post.clone() });
    let failed = notify_plain::notify(app, web::Json(params())).await.into_inner();
    [steps, (failed, post.most())]
}
