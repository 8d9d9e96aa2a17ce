//! A server that is frozen: the process is not ready, and what was ordered meanwhile ends when the server goes on.

use std::time::Duration;

use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::health::NotReady;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::Journal;
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::record::Ending;
use asyncsteps_postgres_server::Server;

struct Till;

impl Service for Till {
    type Errors = ();
}

fn order(steps: &Steps<Till, ()>) -> Returns<()> {
    steps.run("pay", async |_, ()| Ok(())).repeatable().returns()
}

#[test]
fn a_process_whose_journal_is_silent_is_not_ready_until_it_answers() {
    let Some(server) = Server::start() else { return };
    actix::System::new().block_on(async {
        let silent_after = Duration::from_secs(2);
        let options = postgres::Options { silent_after, ..postgres::Options::new("till") };
        let journal = Postgres::connect(server.config(), options).await.expect("a journal");
        let durable = Durable::new(journal.clone());
        let interface = Interface::new("demo.till:1.0".parse().expect("a name"));
        let executor = Executor::builder()
            .service(interface, Till, |functions| _ = durable.on(functions, "order", order))
            .build()
            .expect("an executor");
        let node = durable.start(&executor).await.expect("a lease");
        let ann = Options::default().caller(User::new("ann", SecurityLevel::SafeOps));
        let order = || durable.submit("demo.till:1.0:order", (), ann.clone());
        let ended = async |uid| durable.ended(uid).await.expect("the journal");
        assert!(matches!(ended(order().await.expect("it is stored")).await, Ending::Completed(_)));
        assert!(executor.readiness().await.is_ready);

        server.freeze();
        let mut sessions = journal.session();
        let thaw = async {
            while journal.lost_since().is_none() {
                sessions.changed().await.expect("the journal is there");
            }
            assert_eq!(executor.readiness().await.reasons, [NotReady::Disconnected]);
            server.thaw();
        };
        let (ordered, ()) = tokio::join!(order(), thaw);
        assert!(matches!(ended(ordered.expect("it is stored")).await, Ending::Completed(_)));
        while journal.lost_since().is_some() {
            journal.schedules().await.expect("the server answers");
        }
        assert!(executor.readiness().await.is_ready);
        node.stop().await;
    });
}
