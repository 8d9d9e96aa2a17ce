//! A depot whose forklifts are actors of their own, not flows: they lock shelves by message, keep the
//! ticket of a lock while they work, and give it back by message. Flows lock the same shelves directly.
//!
//! Run it with `cargo run -p asyncsteps-actors --example depot`.

use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message, ResponseActFuture, WrapFuture};
use asyncsteps_actors::flow::start_flow;
use asyncsteps_actors::sync::{
    Enter, Inspect, Lock, LockTicket, Mutex, MutexActor, Throttle, ThrottleActor, Unlock,
};
use asyncsteps_core::sync::{mutex, throttle};
use asyncsteps_core::{Error, Flow};

/// Moves pallets. It has addresses only, so it could run on any arbiter.
struct Forklift {
    shelves: Addr<MutexActor>,
    gate: Addr<ThrottleActor>,
}

impl Actor for Forklift {
    type Context = Context<Self>;
}

/// Drives up to a shelf and locks it.
#[derive(Message)]
#[rtype(result = "Result<LockTicket, Error>")]
struct Fetch {
    shelf: &'static str,
}

impl Handler<Fetch> for Forklift {
    type Result = ResponseActFuture<Self, Result<LockTicket, Error>>;

    fn handle(&mut self, Fetch { shelf }: Fetch, _: &mut Context<Self>) -> Self::Result {
        let (shelves, gate) = (self.shelves.clone(), self.gate.clone());
        let fetch = async move {
            gate.send(Enter::default()).await??;
            let guard = shelves.send(Lock::key(shelf)).await??;
            Ok(guard.into_ticket())
        };
        Box::pin(async { fetch.await.map_err(|error: Failed| error.0) }.into_actor(self))
    }
}

/// An error of an answer, or of its delivery.
struct Failed(Error);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<actix::MailboxError> for Failed {
    fn from(error: actix::MailboxError) -> Self {
        Self(Error::new("DepotClosed").with_cause(error))
    }
}

#[actix::main]
#[expect(clippy::print_stdout, reason = "an example tells what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shelves = Mutex::named("shelf", mutex::Options::default());
    let gate = Throttle::start(throttle::Options {
        max: 2,
        period: Duration::from_millis(20),
        max_queue: None,
    });
    let forklift = Forklift { shelves: shelves.address(), gate: gate.address() }.start();

    let apples = forklift.send(Fetch { shelf: "apples" }).await??;
    let pears = forklift.send(Fetch { shelf: "pears" }).await??;
    // a flow that wants apples waits for the forklift
    let mut flow = Flow::new();
    flow.sync(&shelves.key("apples"), |asi, ()| asi.success("the flow has apples"));
    let order = start_flow::<String>(flow);

    let mut report = shelves.address().send(Inspect).await?;
    report.keys.sort_by(|a, b| a.key.cmp(&b.key));
    for shelf in &report.keys {
        println!("{}: {} inside, {} waiting", shelf.key, shelf.holders, shelf.queued);
    }
    shelves.address().send(Unlock { ticket: apples.clone() }).await??;
    println!("{}", order.await?);
    if let Err(error) = shelves.address().send(Unlock { ticket: apples }).await? {
        println!("a second time: {error}");
    }
    // a ticket that gets lost leaves the shelf free
    drop(pears);
    assert_eq!(shelves.load().holders, 0);
    Ok(())
}
