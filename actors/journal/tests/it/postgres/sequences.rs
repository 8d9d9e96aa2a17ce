//! Sequences that a switch by logical replication has left behind.

use std::time::Duration;

use asyncsteps_journal::Journal;
use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_journal::request::FirstOwner;
use asyncsteps_postgres_server::Server;

use super::load::{end_sessions, raw};
use crate::flows::{run, start, submit};

const BEHIND: &str = "SELECT setval('program_id_seq', 1, false), setval('node_id_seq', 1, false), \
                      setval('flow_number_seq', 1, false)";

#[test]
fn sequences_that_are_behind_go_on_behind_what_is_there() {
    let Some(server) = Server::start() else { return };
    run(async {
        let client = raw(&server).await;
        let connect = async |program| {
            Postgres::connect(server.config(), Options::new(program)).await.expect("a journal")
        };
        let one = connect("one").await;
        let lease = Duration::from_secs(60);
        let node = one.register(lease).await.expect("a node").node;
        let first = start(&one, node).await;
        client.batch_execute("SET search_path = asyncsteps").await.unwrap();
        client.batch_execute(BEHIND).await.unwrap();
        let other = connect("two").await;
        let next = other.register(lease).await.expect("a node").node;
        assert!(next.get() > node.get(), "numbers are not drawn twice");
        let second = start(&other, next).await;
        let numbers = [one.status(first).await, other.status(second).await]
            .map(|status| status.expect("it is there").flow.number);
        assert!(numbers[0] < numbers[1]);
        let programs = client.query_one("SELECT count(DISTINCT id) FROM program", &[]).await;
        assert_eq!(programs.unwrap().get::<_, i64>(0), 2);

        // a process that lives finds another server
        client.batch_execute(BEHIND).await.unwrap();
        let mut sessions = one.session();
        sessions.mark_unchanged();
        end_sessions(&client).await;
        // one is lost, and there is another one
        for _ in 0..2 {
            sessions.changed().await.expect("the journal is there");
        }
        one.submit(submit(FirstOwner::Any)).await.expect("a new flow");
    });
}
