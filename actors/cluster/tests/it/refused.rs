//! Settings and names that cannot be used.

use std::time::Duration;

use asyncsteps_cluster::{Cluster, Config, Error};
use asyncsteps_core::Flow;

use super::world::{flow, node, run, tables, url, with_server};

#[test]
fn settings_that_cannot_be_used_are_named() {
    let schema = |schema: &str| Config { schema: schema.to_owned(), ..Config::default() };
    let lease = |lease| Config { lease, ..Config::default() };
    let refused = [
        (schema(""), "the schema \"\""),
        (schema("a b"), "the schema \"a b\""),
        (schema("x;drop"), "the schema"),
        (schema("1st"), "the schema"),
        (schema(&"x".repeat(41)), "the schema"),
        (lease(Duration::ZERO), "the lease of 0ns"),
        (lease(Duration::from_secs(4000)), "the lease of 4000s"),
        (Config { poll: Duration::ZERO, ..Config::default() }, "the poll of 0ns"),
    ];
    for (config, named) in refused {
        let error = config.check().expect_err("it cannot be used").to_string();
        assert!(error.starts_with(named), "{error}");
    }
    assert!(Config::default().check().is_ok());
}

#[test]
fn what_is_not_reached_is_told() {
    run(async {
        let connect = async |url| Cluster::connect(url, Config::default()).await;
        let error = connect("nonsense").await.expect_err("it is no URL");
        assert!(matches!(error, Error::Config(_)), "{error}");
        let error = connect("host=/nowhere user=x").await.expect_err("there is no server");
        assert!(error.is_transient(), "{error}");
    });
}

#[test]
fn keys_and_tables_that_cannot_be_used_are_told() {
    with_server(async |server| {
        let node = node(server).await;
        for key in ["x".repeat(513), "a\0b".to_owned()] {
            let mut steps = Flow::new();
            steps.run(async |()| Ok(())).locked(&node.mutex("keys").key(&key));
            let error = flow::<()>(steps).await.expect_err("the database cannot have it");
            assert_eq!(error.code(), "InvalidRequest");
            assert!(error.info().is_some_and(|info| info.starts_with("the key of a lock")));
        }
        let longest = "\u{1}".repeat(512);
        node.mutex("keys").key(longest).lock().await.map(drop).expect("it is possible");
        let tables = tables(server).await;
        tables.execute("UPDATE format SET number = 9", &[]).await.expect("the table");
        let error = Cluster::connect(&url(server), Config::default()).await;
        let error = error.expect_err("it is not known");
        assert!(matches!(error, Error::NewerFormat { found: 9, known: 2 }), "{error}");
    });
}

#[test]
fn sessions_have_the_name_of_their_program() {
    with_server(async |server| {
        let _node = node(server).await;
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE application_name ~ '^it-[0-9a-f]+ with asyncsteps-cluster [0-9]+[.]'";
        let named = tables(server).await.query_one(sql, &[]).await.expect("the sessions");
        assert!(named.get::<_, i64>(0) >= 1);
    });
}

#[test]
fn a_pooler_that_lends_connections_for_a_transaction_is_refused() {
    with_server(async |server| {
        if server.pool("transaction", 20) {
            let error = Cluster::connect(&url(server), Config::default()).await;
            let error = error.expect_err("it keeps no sessions");
            let cause = std::error::Error::source(&error).expect("a cause").to_string();
            assert!(cause.contains("`pool_mode = session`"), "{cause}");
        }
    });
}
