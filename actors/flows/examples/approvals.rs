//! Payments that wait for an approval, which comes from another thread: a reviewer looks at the flows
//! by message, approves one and refuses the other, and cancels a third that waits for nothing.
//!
//! Run it with `cargo run -p asyncsteps-actors --example approvals`.

use std::thread;

use actix::Addr;
use asyncsteps_actors::flow::{
    Cancel, Completer, FlowActor, FlowHandle, Inspect, WaitSteps, start_flow,
};
use asyncsteps_core::{Error, Template, codes};

fn payment() -> Template {
    Template::build(|asi| {
        asi.add(|asi, amount: u32| {
            asi.add(|asi, ()| asi.wait_for_message()).named("approval");
            asi.add(move |asi, by: String| asi.success(format!("{amount} paid, approved by {by}")));
        });
    })
}

/// What the reviewer thinks of the payments, in their order.
#[derive(Clone, Copy)]
enum Opinion {
    Approve,
    Refuse,
    Withdraw,
}

/// Works on a thread of its own, with nothing but addresses.
async fn review(flows: Vec<Addr<FlowActor>>) -> Result<(), Box<dyn std::error::Error>> {
    let opinions = [Opinion::Approve, Opinion::Refuse, Opinion::Withdraw];
    for (flow, opinion) in flows.into_iter().zip(opinions) {
        let stack = flow.send(Inspect).await?;
        let Some(wait) = stack.waits.iter().find_map(|wait| wait.id) else { continue };
        let completer = Completer::new(flow.clone(), wait);
        match opinion {
            Opinion::Approve => completer.success("Ann".to_owned()).await?,
            Opinion::Refuse => completer.fail(Error::new(codes::SECURITY_ERROR)).await?,
            Opinion::Withdraw => flow.send(Cancel).await?,
        }
        // it was decided: a second opinion is refused
        assert!(completer.success("Bob".to_owned()).await.is_err());
    }
    Ok(())
}

#[actix::main]
#[expect(clippy::print_stdout, reason = "an example tells what happens")]
async fn main() {
    let payment = payment();
    let payments: Vec<FlowHandle<String>> =
        [10, 2_000, 30].map(|amount| start_flow((&payment, amount))).into();
    let addresses = payments.iter().map(FlowHandle::address).collect();
    let reviewer = thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime
            .block_on(review(addresses))
            .map_err(|error| std::io::Error::other(error.to_string()))
    });
    for payment in payments {
        match payment.await {
            Ok(paid) => println!("{paid}"),
            Err(error) => println!("not paid: {error}"),
        }
    }
    assert!(reviewer.join().is_ok_and(|reviewed| reviewed.is_ok()), "the reviewer failed");
}
