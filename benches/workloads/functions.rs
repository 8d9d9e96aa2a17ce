//! One function, as a template and with types, called in the process.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{BodyResult, Template};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Functions, RequestSteps, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Charge {
    customer: String,
    pub(crate) amount: i32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Charged {
    charge: String,
    cents: i32,
}

pub(crate) struct Payments {
    currency: String,
}

impl Service for Payments {
    type Errors = ();
}

pub(crate) async fn pay(payments: &Payments, amount: i32) -> BodyResult<String> {
    Ok(format!("{}{amount}", payments.currency))
}

pub(crate) fn charged(charge: &Charge, tx: &str) -> Charged {
    Charged { charge: format!("{}-{tx}", charge.customer), cents: charge.amount * 100 }
}

pub(crate) fn payments() -> Payments {
    Payments { currency: "EUR".to_owned() }
}

impl Payments {
    fn charge(steps: &Steps<Self, Charge>) -> Returns<Charged> {
        steps
            .run("bank", async |cx, ()| pay(cx, cx.params.amount).await)
            .then("record", async |cx, tx| Ok(charged(&cx.params, &tx)))
            .returns()
    }
}

fn template() -> Template {
    let payments = Arc::new(payments());
    Template::build(|asi| {
        asi.add(move |asi, ()| {
            let (payments, charge) = (Arc::clone(&payments), Rc::new(asi.params::<Charge>()?));
            let amount = charge.amount;
            asi.run(async move |()| pay(&payments, amount).await).named("bank");
            asi.run(async move |tx: String| Ok((charged(&charge, &tx),))).named("record");
            asi.add(|asi, (charged,): (Charged,)| asi.reply(charged));
            Ok(())
        });
    })
}

/// Calls of the function as a template.
pub(crate) fn of_template(calls: u32) {
    let template = template();
    run(calls, |functions| _ = functions.add("charge", &template));
}

/// Calls of the function with types.
pub(crate) fn with_types(calls: u32) {
    run(calls, |functions| _ = functions.on("charge", Payments::charge));
}

fn run(calls: u32, define: impl FnOnce(&mut Functions<Payments>)) {
    let mut interface = Interface::new("acme.payments:1.0".parse().expect("a name"));
    interface.function::<Charge, Charged>("charge");
    actix_rt::System::new().block_on(async {
        let builder = Executor::builder().service(interface, payments(), define);
        let executor = builder.build().expect("a right configuration");
        for _ in 0..calls {
            let params = json!({ "customer": "ann", "amount": 7 });
            let answer = executor.call_as_system("acme.payments:1.0:charge", params).await;
            let answer: Value = answer.expect("it is charged");
            assert_eq!(black_box(answer)["cents"], 700);
        }
    });
}
