//! Errors of a service are found by their types after a crash as before it.

use asyncsteps::Code;
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Durable, Options, Recorded};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Gives, Service, Steps};
use serde_json::json;

use crate::lab::{Nothing, result, soon};
use crate::node::{Crash, Kind, TestClock, Until, run, run_until};

struct Bank;

impl Service for Bank {
    type Errors = (Away, BankError);
}

#[derive(Debug, Code, thiserror::Error)]
#[error("away")]
struct Away;

#[derive(Debug, PartialEq, Eq, Code, thiserror::Error)]
enum BankError {
    #[error("no money")]
    NoMoney,
    #[error("no card {0}")]
    NoCard(u32),
}

fn pay(asi: &mut Steps<Bank, Nothing>) -> Gives<String> {
    asi.run("charge", async |_, ()| {
        soon().await;
        Err(BankError::NoMoney.into())
    })
    .recorded()
    .recover(async |_, error| {
        soon().await;
        Ok(format!("{:?}", error.find::<BankError>()))
    })
    .then("end", async |_, found| {
        soon().await;
        Ok(found)
    })
    .recorded()
    .into()
}

fn process(journal: Memory) -> (Durable, Executor) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.bank:1.0".parse().expect("it is a name"));
    let builder = Executor::builder().service(interface, Bank, |functions| {
        durable.on(functions, "pay", pay);
    });
    let executor = builder.build().expect("it is complete");
    (durable, executor)
}

fn check(ending: &Ending) {
    assert_eq!(result::<String>(ending), "Some(NoMoney)");
}

#[test]
fn an_error_is_found_by_its_type_whatever_crashes() {
    run(async {
        for append in 1.. {
            let clock = TestClock::start();
            let journal = Memory::new(clock);
            let (durable, _) = process(journal.clone());
            let user = asyncsteps_executor::security::User::new(
                "ann",
                asyncsteps_executor::security::SecurityLevel::SafeOps,
            );
            let options = Options::default().caller(&user);
            let submitted = durable.submit("test.bank:1.0:pay", json!({}), options).await;
            let uid = submitted.expect("the journal takes it");
            let start = process;
            let crash = Crash { append, kind: Kind::AfterStored };
            if let Until::Ended(ending) = run_until(&journal, start, uid, Some(crash)).await {
                assert!(append > 2, "{append} records");
                return check(&ending);
            }
            match run_until(&journal, start, uid, None).await {
                Until::Ended(ending) => check(&ending),
                Until::Crashed => unreachable!("nothing crashes it"),
            }
        }
    });
}

#[test]
fn only_errors_without_fields_are_found_by_their_codes() {
    let found = |code: &str| <(Away, BankError) as asyncsteps::Codes>::of_code(code);
    assert!(found("Away").is_some_and(|error| error.is::<Away>()));
    assert!(found("NoMoney").is_some_and(|error| error.is::<BankError>()));
    assert!(found("NoCard").is_none() && found("Other").is_none());
    assert_eq!(BankError::NoCard(1).code(), "NoCard");
}
