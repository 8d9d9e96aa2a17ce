//! Errors of a service are found by their types after a crash as before it.

use std::collections::BTreeSet;
use std::time::Duration;

use asyncsteps_core::{Code, Error, ErrorExt};
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::limits::VALUE_BYTES;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{TokioClock, Uid};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::lab::{Nothing, result, soon};
use crate::node::{Crash, Kind, Until, run, run_until};

struct Bank {
    /// What the charge fails with.
    raise: fn() -> Error,
    /// How the handler sees an error.
    find: fn(&Error) -> String,
}

impl Service for Bank {
    type Errors = (Away, BankError, Opaque);
}

#[derive(Debug, Code, thiserror::Error)]
#[error("away")]
struct Away;

#[derive(Debug, PartialEq, Code, Serialize, Deserialize, thiserror::Error)]
enum BankError {
    #[error("no money")]
    NoMoney,
    #[error("no card {0}")]
    NoCard(u32),
    #[error("{left} left of {}", wanted.len())]
    #[code(public)]
    TooLittle { left: f64, wanted: Vec<Option<i64>> },
    #[error("a long text")]
    Long(String),
}

/// Its value cannot be stored.
#[derive(Debug, Code, thiserror::Error)]
#[error("opaque")]
struct Opaque(u32);

fn pay(steps: &Steps<Bank, Nothing>) -> Returns<String> {
    steps
        .run("charge", async |cx, ()| {
            soon().await;
            Err((cx.raise)().into())
        })
        .recorded()
        .recover(async |cx, error| {
            soon().await;
            Ok((cx.find)(error))
        })
        .then("end", async |_, found| {
            soon().await;
            Ok(found)
        })
        .recorded()
        .returns()
}

fn process(journal: Memory, bank: Bank) -> (Durable, Executor) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.bank:1.0".parse().expect("it is a name"));
    let builder = Executor::builder().service(interface, bank, |functions| {
        durable.on(functions, "pay", pay);
    });
    let executor = builder.build().expect("it is complete");
    (durable, executor)
}

async fn submitted(journal: &Memory, start: impl Fn(Memory) -> (Durable, Executor)) -> Uid {
    let (durable, _executor) = start(journal.clone());
    let user = User::new("ann", SecurityLevel::SafeOps);
    let options = Options::default().caller(&user);
    durable.submit("test.bank:1.0:pay", json!({}), options).await.expect("the journal takes it")
}

/// What the handler saw without a crash, and with one at each record.
async fn seen(raise: fn() -> Error, find: fn(&Error) -> String) -> (String, BTreeSet<String>) {
    let mut after = BTreeSet::new();
    for append in 1.. {
        let journal = Memory::new(TokioClock::start());
        let start = |journal| process(journal, Bank { raise, find });
        let uid = submitted(&journal, start).await;
        let crash = Crash { append, kind: Kind::AfterStored };
        if let Until::Ended(ending) = run_until(&journal, start, uid, Some(crash)).await {
            assert!(append > 2, "{append} records");
            return (result(&ending), after);
        }
        match run_until(&journal, start, uid, None).await {
            Until::Ended(ending) => after.insert(result(&ending)),
            Until::Crashed => unreachable!("nothing crashes it"),
        };
    }
    unreachable!("it ends")
}

fn bank_error(error: &Error) -> String {
    format!("{} {:?} {:?}", error.code(), error.info(), error.find::<BankError>())
}

#[test]
fn an_error_is_found_by_its_type_whatever_crashes() {
    run(async {
        let raise: [fn() -> Error; 4] = [
            || Error::caused_by("InternalError", BankError::NoMoney),
            || Error::caused_by("InternalError", BankError::NoCard(7)),
            || {
                let wanted = vec![Some(i64::MIN), None];
                Error::caused_by("InternalError", BankError::TooLittle { left: 0.1 + 0.2, wanted })
            },
            // the code was chosen where the error was raised
            || {
                Err::<(), _>(BankError::NoCard(8))
                    .code("Refused")
                    .expect_err("it is one")
                    .into_error()
            },
        ];
        let found = ["Some(NoMoney)", "Some(NoCard(7))", "-9223372036854775808", "Some(NoCard(8))"];
        for (raise, found) in raise.into_iter().zip(found) {
            let (before, after) = seen(raise, bank_error).await;
            assert!(before.contains(found), "{before}");
            assert_eq!(after, BTreeSet::from([before]));
        }
    });
}

#[test]
fn an_error_below_another_one_is_found() {
    run(async {
        #[derive(Debug, thiserror::Error)]
        #[error("while paying")]
        struct Context(#[source] BankError);
        let raise = || Error::caused_by("InternalError", Context(BankError::NoCard(9)));
        let (before, after) = seen(raise, bank_error).await;
        assert!(before.contains("Some(NoCard(9))"), "{before}");
        assert_eq!(after, BTreeSet::from([before]));
    });
}

#[test]
fn an_error_whose_value_cannot_be_stored_is_known_by_its_code() {
    run(async {
        let find = |error: &Error| {
            let (bank, opaque) = (error.find::<BankError>(), error.find::<Opaque>());
            format!("{} {}", error.code(), bank.is_some() || opaque.is_some())
        };
        let raise: [(fn() -> Error, _); 3] = [
            (|| Error::caused_by("InternalError", Opaque(1)), "Opaque"),
            // larger than a result may be
            (
                || Error::caused_by("InternalError", BankError::Long("x".repeat(VALUE_BYTES))),
                "Long",
            ),
            // JSON has no such number, so it could not be read
            (
                || {
                    let error = BankError::TooLittle { left: f64::NAN, wanted: Vec::new() };
                    Error::caused_by("InternalError", error)
                },
                "TooLittle",
            ),
        ];
        for (raise, code) in raise {
            let (before, after) = seen(raise, find).await;
            assert_eq!(before, format!("{code} true"));
            // a crash before the record of the failure repeats the body, and so its error
            let expected = BTreeSet::from([format!("{code} false"), format!("{code} true")]);
            assert_eq!(after, expected);
        }
    });
}

/// The same service, in which `NoCard` has another shape.
struct NewBank;

impl Service for NewBank {
    type Errors = NewBankError;
}

#[derive(Debug, Code, Serialize, Deserialize, thiserror::Error)]
enum NewBankError {
    #[error("no card {0}")]
    NoCard(String),
}

fn pay_at_new_bank(steps: &Steps<NewBank, Nothing>) -> Returns<String> {
    steps
        .run("charge", async |_, ()| Ok(String::new()))
        .recorded()
        .recover(async |_, error| Ok(format!("{:?}", error.find::<NewBankError>())))
        .returns()
}

#[test]
fn a_program_that_cannot_read_a_recorded_error_waits_for_an_operator() {
    run(async {
        let journal = Memory::new(TokioClock::start());
        let start = |journal| {
            let raise = || Error::caused_by("InternalError", BankError::NoCard(7));
            process(journal, Bank { raise, find: bank_error })
        };
        let uid = submitted(&journal, start).await;
        // the failure is recorded before the second append
        let crash = Crash { append: 2, kind: Kind::BeforeStored };
        let crashed = run_until(&journal, start, uid, Some(crash)).await;
        assert!(matches!(crashed, Until::Crashed));
        let durable = Durable::new(journal);
        let interface = Interface::new("test.bank:1.0".parse().expect("it is a name"));
        let builder = Executor::builder().service(interface, NewBank, |functions| {
            durable.on(functions, "pay", pay_at_new_bank);
        });
        let executor = builder.build().expect("it is complete");
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let flow = loop {
            let flow = durable.status(uid).await.expect("it is known").flow;
            if flow.state == FlowState::Paused {
                break flow;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let reason = flow.reason.unwrap_or_default();
        assert!(reason.contains("/charge"), "{reason}");
        assert!(reason.contains("its error cannot be read"), "{reason}");
        node.stop().await;
    });
}
