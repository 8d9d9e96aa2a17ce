//! The promise: a function is written with its types, and what it says behind its steps holds.

#![expect(clippy::unused_async, reason = "handlers are async functions")]

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{BodyResult, Code, Error, Retry, Undo, codes, sync::mutex::Options};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{ConfigError, Cx, Either, Executor, Hooks, Returns, Service, Steps};
use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PAYMENTS: &str = include_str!("acme.payments-1.0-iface.json");

pub(super) fn definition() -> Arc<Definition> {
    let source = Source::texts([("acme.payments-1.0-iface.json", PAYMENTS)]);
    let id = "acme.payments:1.0".parse().expect("a name");
    Loader::new([source]).load(&id).expect("a right definition")
}

#[derive(Debug, Code, thiserror::Error)]
enum BankError {
    #[error("a secret of the bank")]
    #[code("BankUnavailable")]
    Unreachable,
    #[error("the card was refused")]
    #[code("CardDeclined", public)]
    Declined,
}

impl BankError {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable)
    }
}

#[derive(Debug, Code, thiserror::Error)]
#[error("a secret of the ledger")]
#[code("LedgerDown")]
struct LedgerError;

/// What the bank does at each call.
#[derive(Clone, Copy, PartialEq)]
enum Bank {
    Pays,
    Unreachable,
    Hangs,
    Declines,
}

/// What the bank was asked.
#[derive(Default)]
struct Log {
    calls: StdMutex<Vec<String>>,
    refunds: StdMutex<Vec<String>>,
}

struct Payments {
    bank: StdMutex<Vec<Bank>>,
    log: Arc<Log>,
    ledger_is_down: bool,
    bank_calls: Mutex,
    customers: Mutex,
    forgotten: AtomicU32,
}

impl Default for Payments {
    fn default() -> Self {
        Self {
            bank: StdMutex::default(),
            log: Arc::default(),
            ledger_is_down: false,
            bank_calls: Mutex::new(Options::default()),
            customers: Mutex::new(Options::default()),
            forgotten: AtomicU32::new(0),
        }
    }
}

impl Service for Payments {
    type Errors = (BankError, LedgerError);
}

#[derive(Deserialize, JsonSchema)]
struct Charge {
    customer: String,
    amount: i32,
}

#[derive(Serialize, JsonSchema)]
struct Charged {
    charge: String,
    attempts: i32,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct StatusOf {
    pub(super) charge: String,
}

#[derive(Deserialize, JsonSchema)]
struct Notify {
    customers: Vec<Value>,
}

/// No `Arg`, no `Serialize`: a type of the application.
#[derive(Clone)]
struct Tx(String);

impl Payments {
    async fn pay(&self, customer: &str, amount: i32, key: &str) -> Result<Tx, BankError> {
        self.log.calls.lock().expect("nothing panics").push(key.to_owned());
        let next = self.bank.lock().expect("nothing panics").pop();
        match next.unwrap_or(Bank::Pays) {
            Bank::Pays => Ok(Tx(format!("{customer}-{amount}"))),
            Bank::Unreachable => Err(BankError::Unreachable),
            Bank::Hangs => std::future::pending().await,
            Bank::Declines => Err(BankError::Declined),
        }
    }

    fn charge(steps: &Steps<Self, Charge>) -> Returns<Charged> {
        steps.locked(|cx| cx.customers.key(&cx.params.customer));
        steps
            .run("bank", async |cx, ()| {
                let tx = cx.pay(&cx.params.customer, cx.params.amount, cx.key()).await?;
                Ok((tx, cx.attempt()))
            })
            .timeout(Duration::from_millis(300))
            .limited(|cx| cx.bank_calls.clone())
            .retry(
                Retry::attempts(4).backoff(Duration::from_millis(50)).on(BankError::is_transient),
            )
            .undo(async |cx, outcome| {
                let what = match outcome {
                    Undo::Done((tx, _)) => tx.0.as_str(),
                    Undo::Unknown => "unknown",
                };
                cx.log
                    .refunds
                    .lock()
                    .expect("nothing panics")
                    .push(format!("refund {what} {}", cx.key()));
                Ok(())
            })
            .then("record", async |cx, (tx, attempts)| {
                if cx.ledger_is_down {
                    return Err(LedgerError.into());
                }
                Ok(Charged { charge: tx.0, attempts: attempts.try_into()? })
            })
            .returns()
    }

    async fn status(cx: &Cx<Self, StatusOf>) -> BodyResult<String> {
        match cx.params.charge.as_str() {
            "number" => Ok("x".parse::<u8>().map(|number| number.to_string())?),
            "declined" => Err(BankError::Declined)?,
            "nested" => Err(Error::caused_by(codes::INTERNAL_ERROR, BankError::Declined).into()),
            "text" => Err(String::from("a secret"))?,
            charge => Ok(format!("{charge} is paid")),
        }
    }

    async fn forget(cx: &Cx<Self, ()>) -> BodyResult<()> {
        cx.forgotten.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn notify(steps: &Steps<Self, Notify>) -> Returns<Vec<String>> {
        steps
            .each(
                "notify",
                |cx, ()| cx.params.customers.clone(),
                |customer| {
                    customer.run("one", async |cx, customer| {
                        let key = cx.key().split_once('-').map(|(_, step)| step.to_owned());
                        Ok(format!("{customer} {}", key.unwrap_or_default()))
                    })
                },
            )
            .at_once(2)
            .returns()
    }
}

fn executor(payments: Payments) -> Executor {
    Executor::builder()
        .service(definition(), payments, |functions| {
            functions
                .on("charge", Payments::charge)
                .on("status", Payments::status)
                .on("forget", Payments::forget)
                .on("notify", Payments::notify);
        })
        .build()
        .expect("the types fit")
}

async fn call(executor: &Executor, function: &str, params: Value) -> Result<Value, Error> {
    executor.call_as_system(&format!("acme.payments:1.0:{function}"), params).await
}

async fn charge(executor: &Executor) -> Result<Value, Error> {
    call(executor, "charge", json!({ "customer": "ann", "amount": 7 })).await
}

#[track_caller]
pub(super) fn check(result: Result<Value, Error>, expected: Expect) {
    expected.assert_eq(&match result {
        Ok(value) => value.to_string(),
        Err(error) => format!("{error}"),
    });
}

#[actix::test]
async fn parameters_and_results_are_types() {
    let executor = executor(Payments::default());
    check(charge(&executor).await, expect![[r#"{"attempts":1,"charge":"ann-7"}"#]]);
    let status = call(&executor, "status", json!({ "charge": "c7" })).await;
    check(status, expect![[r#""c7 is paid""#]]);
    check(call(&executor, "forget", json!({})).await, expect!["null"]);
    let notified = call(&executor, "notify", json!({ "customers": [1, 2, 3] })).await;
    check(
        notified,
        expect![[r#"["1 notify-notify#0/one","2 notify-notify#1/one","3 notify-notify#2/one"]"#]],
    );
}

/// What the bank and the ledger do, the outcome, and what is undone.
async fn run(bank: &[Bank], ledger_is_down: bool) -> (Executor, Arc<Log>, Result<Value, Error>) {
    let log = Arc::new(Log::default());
    let bank = StdMutex::new(bank.iter().rev().copied().collect());
    let payments = Payments { bank, ledger_is_down, log: Arc::clone(&log), ..Payments::default() };
    let executor = executor(payments);
    let result = charge(&executor).await;
    (executor, log, result)
}

#[actix::test]
async fn a_step_is_tried_again_with_the_same_key() {
    tokio::time::pause();
    let (_, log, result) = run(&[Bank::Unreachable, Bank::Hangs, Bank::Pays], false).await;
    check(result, expect![[r#"{"attempts":3,"charge":"ann-7"}"#]]);
    let keys = log.calls.lock().expect("nothing panics").clone();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0] && key.ends_with("-charge-bank")), "{keys:?}");
    assert!(log.refunds.lock().expect("nothing panics").is_empty());
}

#[actix::test]
async fn a_step_is_undone_with_its_key_when_a_later_one_fails() {
    let (_, log, result) = run(&[Bank::Pays], true).await;
    check(result, expect!["LedgerDown"]);
    let key = log.calls.lock().expect("nothing panics")[0].clone();
    assert_eq!(*log.refunds.lock().expect("nothing panics"), [format!("refund ann-7 {key}")]);
    tokio::time::pause();
    let (_, log, result) = run(&[Bank::Hangs; 4], false).await;
    check(result, expect!["InternalError: Not expected error"]);
    let key = log.calls.lock().expect("nothing panics")[0].clone();
    assert_eq!(*log.refunds.lock().expect("nothing panics"), [format!("refund unknown {key}")]);
}

#[actix::test]
async fn callers_see_the_codes_of_listed_errors_and_no_other_text() {
    let (executor, _, result) = run(&[Bank::Declines], false).await;
    check(result, expect!["CardDeclined: the card was refused"]);
    let (_, _, result) = run(&[Bank::Unreachable; 4], false).await;
    check(result, expect!["BankUnavailable"]);
    let status = async |charge: &str| call(&executor, "status", json!({ "charge": charge })).await;
    check(status("declined").await, expect!["CardDeclined: the card was refused"]);
    check(status("nested").await, expect!["CardDeclined: the card was refused"]);
    check(status("number").await, expect!["InternalError: Not expected error"]);
    check(status("text").await, expect!["InternalError: Not expected error"]);
}

/// The steps of errors that no caller sees.
#[derive(Clone, Default)]
struct NotExpected(Arc<StdMutex<Vec<String>>>);

impl Hooks for NotExpected {
    fn not_expected(&self, function: &str, error: &Error) {
        let step = error.location().and_then(|location| location.name()).unwrap_or("no name");
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        let text = format!("{function}, {step}: {cause}");
        self.0.lock().expect("nothing panics").push(text);
    }
}

#[actix::test]
async fn an_error_that_no_caller_sees_is_reported_with_its_step() {
    let hooks = NotExpected::default();
    let payments = Payments { ledger_is_down: true, ..Payments::default() };
    let executor = Executor::builder()
        .hooks(hooks.clone())
        .service(definition(), payments, |functions| {
            functions.on("status", Payments::nested).others_not_implemented();
        })
        .build()
        .expect("the types fit");
    let status = call(&executor, "status", json!({ "charge": "number" })).await;
    check(status, expect!["InternalError: Not expected error"]);
    let seen = hooks.0.lock().expect("nothing panics").clone();
    assert_eq!(seen, ["acme.payments:1.0:status, use: a secret of the ledger"]);
}

#[derive(Serialize, JsonSchema)]
struct WrongResult {
    charge: u32,
}

#[derive(Deserialize, JsonSchema)]
struct WrongParams {
    #[expect(dead_code, reason = "only its type is looked at")]
    customer: bool,
}

/// Fits nothing, and knows errors that the definition does not.
struct Wrong;

#[derive(Debug, Code, thiserror::Error)]
#[error("not declared")]
struct NotDeclared;

impl Service for Wrong {
    type Errors = NotDeclared;
}

impl Wrong {
    fn charge(steps: &Steps<Self, WrongParams>) -> Returns<WrongResult> {
        steps.run("wrong", async |_, ()| Ok(WrongResult { charge: 7 })).returns()
    }

    async fn forget(_: &Cx<Self, ()>) -> BodyResult<String> {
        Err(NotDeclared)?
    }
}

#[test]
fn all_differences_to_the_definition_are_reported_at_once() {
    let error = Executor::builder()
        .service(definition(), Wrong, |functions| {
            functions.on("charge", Wrong::charge).on("forget", Wrong::forget);
        })
        .build()
        .expect_err("nothing fits");
    assert!(matches!(&error, ConfigError::Several(errors) if errors.len() == 7));
    expect![[r#"
        acme.payments:1.0:charge, parameter customer: the Rust type has boolean, the definition has string
        acme.payments:1.0:charge, parameter amount: the Rust type has no such field
        acme.payments:1.0:charge, result attempts: the Rust type has no such field
        acme.payments:1.0:charge, result charge: the Rust type has integer from 0 to 4294967295, the definition has string
        acme.payments:1.0:forget, result: the Rust type has string, the definition has none
        acme.payments:1.0 has no function that throws NotDeclared, which is a code of the service's errors: declare it in the `throws` of a function with a result
        acme.payments:1.0 got no handler or template for notify, status"#]].assert_eq(&error.to_string());
    assert_eq!(format!("{error:?}"), error.to_string(), "as `main` shows it");
}

/// Knows an error that every function may have.
struct Careful;

#[derive(Debug, Code, thiserror::Error)]
enum CarefulError {
    #[error("the customer has no name")]
    #[code("InvalidRequest", public)]
    NoName,
}

impl Service for Careful {
    type Errors = CarefulError;
}

impl Careful {
    async fn status(_: &Cx<Self, StatusOf>) -> BodyResult<String> {
        Err(CarefulError::NoName)?
    }
}

#[actix::test]
async fn a_standard_code_needs_no_declaration() {
    let mut written = Interface::new("acme.careful:1.0".parse().expect("a name"));
    written.allow_anonymous();
    let executor = Executor::builder()
        .service(definition(), Careful, |functions| {
            functions.on("status", Careful::status).others_not_implemented();
        })
        .service(written, Careful, |functions| {
            functions.on("status", Careful::status);
        })
        .build()
        .expect("nothing is to be declared");
    for interface in ["acme.payments", "acme.careful"] {
        let params = json!({ "charge": "x" });
        let answer = executor.call_as_system::<Value>(&format!("{interface}:1.0:status"), params);
        // the parameters followed the definition, so that the function made this error itself
        let error = answer.await.expect_err("it fails");
        assert_eq!(error.to_string(), "InvalidRequest: the customer has no name");
    }
}

impl Payments {
    /// A way, a step that is tried again with its sub-steps, and one whose end is final.
    fn nested(steps: &Steps<Self, StatusOf>) -> Returns<String> {
        steps
            .scope("final", |steps| {
                steps
                    .run("first", async |_, ()| Ok(1))
                    .undo(async |cx, _| {
                        cx.log.refunds.lock().expect("nothing panics").push("final".to_owned());
                        Ok(())
                    })
                    .returns()
            })
            .then_nested("tried", |steps| {
                steps.timeout(Duration::from_secs(1));
                steps
                    .run("bank", async |cx, first| Ok((first, cx.pay("ann", 7, cx.key()).await?)))
                    .undo(async |cx, outcome| {
                        let text = format!("{:?}", matches!(outcome, Undo::Done(_)));
                        cx.log.refunds.lock().expect("nothing panics").push(text);
                        Ok(())
                    })
                    .then("use", async |cx, (first, tx)| match cx.ledger_is_down {
                        true => Err(LedgerError)?,
                        false => Ok(format!("{first} {}", tx.0)),
                    })
                    .returns()
            })
            .retry(Retry::attempts(2).on(BankError::is_transient))
            .locked(|cx| cx.customers.clone())
            .then("length", async |_, text| match text.len() {
                0 => Ok(Either::A(())),
                _ => Ok(Either::B(text)),
            })
            .either(
                "branch",
                |empty| empty.run("empty", async |_, ()| Ok(String::new())).returns(),
                |text| {
                    text.join("both", |all| {
                        (
                            all.pass(),
                            all.run("n", async |_, _| Ok(1)),
                            all.run("one", async |_, _| Ok("one")),
                        )
                    })
                    .then("text", async |_, (text, n, one)| Ok(format!("{text} {n} {one}")))
                    .returns()
                },
            )
            .recover(async |_, error| Ok(format!("no {}", error.code())))
            .returns()
    }
}

/// The result of `status` as nested steps, and what was undone.
async fn nested(bank: &[Bank], ledger_is_down: bool) -> (Result<Value, Error>, Vec<String>) {
    let (log, bank) = (Arc::new(Log::default()), bank.iter().rev().copied().collect());
    let (bank, of_bank) = (StdMutex::new(bank), Arc::clone(&log));
    let payments = Payments { bank, ledger_is_down, log: of_bank, ..Payments::default() };
    let executor = Executor::builder()
        .service(definition(), payments, |functions| {
            functions.on("status", Payments::nested).others_not_implemented();
        })
        .build()
        .expect("the types fit");
    let result = call(&executor, "status", json!({ "charge": "c7" })).await;
    (result, log.refunds.lock().expect("nothing panics").clone())
}

#[actix::test]
async fn substeps_branch_are_tried_again_and_can_be_final() {
    let (result, undone) = nested(&[Bank::Unreachable, Bank::Pays], false).await;
    check(result, expect![[r#""1 ann-7 1 one""#]]);
    assert!(undone.is_empty(), "{undone:?}");
    let (result, undone) = nested(&[Bank::Pays], true).await;
    check(result, expect!["InternalError: Not expected error"]);
    assert_eq!(undone, ["true"], "what is final stays");
}

#[actix::test]
async fn a_definition_is_written_down_from_the_handlers() {
    let mut interface = Interface::new("acme.payments:1.0".parse().expect("a name"));
    interface.function::<StatusOf, String>("status").heavy();
    let executor = Executor::builder()
        .service(interface, Payments::default(), |functions| {
            functions
                .on("charge", Payments::charge)
                .on("status", Payments::status)
                .on("forget", Payments::forget);
        })
        .build()
        .expect("the types can be written");
    check(charge(&executor).await, expect![[r#"{"attempts":1,"charge":"ann-7"}"#]]);
    let [written] = &executor.written_interfaces()[..] else { panic!("there is one") };
    expect![[r#"
        {
          "ftn3rev": "1.9",
          "funcs": {
            "charge": {
              "params": {
                "amount": {
                  "type": "integer"
                },
                "customer": {
                  "type": "string"
                }
              },
              "result": {
                "attempts": "integer",
                "charge": "string"
              },
              "throws": [
                "BankUnavailable",
                "CardDeclined",
                "LedgerDown"
              ]
            },
            "forget": {},
            "status": {
              "heavy": true,
              "params": {
                "charge": {
                  "type": "string"
                }
              },
              "result": "string",
              "throws": [
                "BankUnavailable",
                "CardDeclined",
                "LedgerDown"
              ]
            }
          },
          "iface": "acme.payments",
          "requires": [],
          "types": {},
          "version": "1.0"
        }"#]]
    .assert_eq(&format!("{:#}", written.to_json().expect("it is hosted")));
}

#[test]
fn a_name_that_ftn3_has_otherwise_is_an_error_of_build() {
    async fn book(_: &Cx<(), ()>) -> BodyResult<i32> {
        Ok(1)
    }
    let interface = Interface::new("acme.names:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        functions.on("book_durably", book);
    });
    let error = builder.build().expect_err("it is no name of a function");
    expect!["acme.names:1.0 cannot be written down: function book_durably: FTN3 names functions like someFunc: write bookDurably"]
        .assert_eq(&error.to_string());
}

#[derive(Serialize, JsonSchema)]
struct Large {
    number: u64,
}

#[test]
fn a_type_that_cannot_be_written_is_an_error() {
    async fn large(_: &Cx<(), ()>) -> BodyResult<Large> {
        Ok(Large { number: 1 })
    }
    let interface = Interface::new("acme.large:1.0".parse().expect("a name"));
    let error = Executor::builder()
        .service(interface, (), |functions| {
            functions.on("large", large);
        })
        .build()
        .expect_err("integers have 32 bits");
    assert!(matches!(error, ConfigError::Written { .. }));
    expect!["acme.large:1.0 cannot be written down: result number of large: integers of FTN3 have 32 bits: use i32, or f64 for larger ones"].assert_eq(&error.to_string());
    assert_eq!(format!("{error:?}"), error.to_string(), "what `main` prints says it once");
}
