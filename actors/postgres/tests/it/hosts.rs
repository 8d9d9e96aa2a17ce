use std::os::unix::net::UnixListener;
use std::time::Duration;

use asyncsteps_postgres::{Dial, DialError, LibpqOptions, SILENT_AFTER};
use asyncsteps_postgres_server::Server;
use futures_util::future::poll_immediate;
use tokio_postgres::NoTls;

const SETTINGS: [(&str, &str); 1] = [("search_path", "shop")];

#[tokio::test]
async fn a_host_that_begins_to_take_changes_counts_while_another_one_is_silent() {
    let Some(server) = Server::start() else { return };
    let (client, connection) = server.config().connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let set = "ALTER DATABASE postgres SET default_transaction_read_only =";
    client.batch_execute(&format!("{set} on")).await.expect("it is set");
    // it takes connections, and says nothing
    let silent = server.file("silent");
    std::fs::create_dir(&silent).expect("a folder");
    let _listens = UnixListener::bind(silent.join(".s.PGSQL.5432")).expect("a socket");
    let mut both = server.config();
    both.host_path(&silent);
    // longer than the test
    let dial = Dial::new(both, LibpqOptions::default(), &SETTINGS, Duration::from_secs(3600));
    let mut dialled = Box::pin(dial.connect());
    let sessions =
        "SELECT count(*) FROM pg_stat_database WHERE datname = 'postgres' AND sessions > 2";
    while client.query_one(sessions, &[]).await.expect("a row").get::<_, i64>(0) == 0 {
        assert!(poll_immediate(&mut dialled).await.is_none(), "it takes no changes");
    }
    client.batch_execute(&format!("{set} off")).await.expect("it is set");
    let (client, connection) = dialled.await.expect("it takes changes");
    tokio::spawn(connection);
    let row = client.query_one("SHOW search_path", &[]).await.expect("a row");
    assert_eq!(row.get::<_, String>(0), "shop");
}

#[tokio::test]
async fn what_is_not_there_after_it_was_set_is_named() {
    let Some(server) = Server::start() else { return };
    // not as the server shows it
    let settings = [("statement_timeout", "3000")];
    let dial = Dial::new(server.config(), LibpqOptions::default(), &settings, SILENT_AFTER);
    let error = dial.connect().await.err().expect("it is another one");
    assert!(matches!(error, DialError::NotKept(_)), "{error}");
    assert!(error.to_string().contains("`statement_timeout` is `3s`"), "{error}");
}
