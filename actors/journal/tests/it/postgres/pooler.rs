//! A pooler in front of the server. That sessions which are kept will do is shown by the contract.

use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_postgres_server::Server;
use tokio_postgres::NoTls;

use super::load::Load;
use crate::flows::run;

#[test]
fn a_pooler_that_lends_connections_for_a_transaction_is_refused() {
    let Some(mut server) = Server::start() else { return };
    // with one connection to the server each client finds what another one has set
    if !server.pool("transaction", 1) {
        return;
    }
    run(async {
        let error = Postgres::connect(server.config(), Options::new("test")).await;
        let text = format!("{:?}", error.expect_err("it is refused"));
        assert!(text.contains("`pool_mode = session`"), "{text}");
        // nothing is left of it for other clients of the pooler
        let (client, connection) = server.config().connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let sql = "SELECT current_setting('search_path'), \
                   (SELECT count(*) FROM pg_namespace WHERE nspname = 'asyncsteps')";
        let row = client.query_one(sql, &[]).await.expect("a row");
        assert_eq!((row.get(0), row.get(1)), ("\"$user\", public", 0_i64));
    });
}

#[test]
fn a_server_that_ends_behind_its_pooler_is_used_again() {
    let Some(mut server) = Server::start() else { return };
    if !server.pool("session", 20) {
        return;
    }
    run(async {
        let journal = Postgres::connect(server.config(), Options::new("test")).await;
        let journal = journal.expect("a journal");
        let load = Load::start(&journal).await;
        let restart = async {
            server.end("KILL");
            server.run();
        };
        load.during(restart).await;
        load.check(&journal).await;
    });
}
