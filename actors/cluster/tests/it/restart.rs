//! The server goes away and comes back.

use asyncsteps_cluster::{Cluster, Config};

use super::child::{Holder, LOCK, was_holder};
use super::world::{node, number, tables, url, with_server, within};
use asyncsteps_postgres_server::Server;

/// Kills the server, and starts it again.
fn restart(server: &mut Server) {
    server.end("KILL");
    server.run();
}

#[test]
fn a_holder_that_lives_keeps_its_lock_over_a_restart() {
    with_server(async |server| {
        let (one, other) = (node(server).await, node(server).await);
        let (held, wanted) = (one.mutex("restart"), other.mutex("restart"));
        let guard = held.lock().await.expect("it is free");
        restart(server);
        let waits = wanted.lock();
        tokio::pin!(waits);
        let asked = async {
            let tables = tables(server).await;
            super::world::until(&tables, "SELECT count(*) FROM mutex WHERE wanted", 1).await;
        };
        tokio::select! {
            _ = &mut waits => panic!("it is held"),
            () = asked => {}
        }
        assert!(guard.is_valid());
        let before = guard.fence();
        drop(guard);
        let after = within(waits).await.expect("it is given back").fence();
        assert!(before < after);
    });
}

#[test]
fn after_a_start_of_the_server_no_lock_changes_hands_for_a_lease() {
    if was_holder() {
        return;
    }
    with_server(async |server| {
        let contender = node(server).await;
        let name = "restart::after_a_start_of_the_server_no_lock_changes_hands_for_a_lease";
        let mut holder = Holder::start(name, &url(server), 3000);
        holder.said("holds").await;
        holder.kill();
        restart(server);
        let tables = tables(server).await;
        let started = number(
            &tables,
            "SELECT floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint",
        )
        .await;
        // the holder could have lost its lease while the server was away
        tables.execute("UPDATE node SET ends = 0 WHERE lease = 3000", &[]).await.expect("a node");
        within(contender.mutex(LOCK).lock()).await.map(drop).expect("it comes free");
        assert!(number(&tables, "SELECT now_ms()").await >= started + 3000);
    });
}

#[test]
fn sequences_that_a_copy_has_left_behind_go_on() {
    with_server(async |server| {
        let one = node(server).await;
        let guard = one.mutex("copied").lock().await.expect("it is free");
        let before = guard.fence();
        let behind = "SELECT setval('epoch', 1, false) + setval('node_id_seq', 1, false)";
        assert_eq!(number(&tables(server).await, behind).await, 2);
        let other = node(server).await;
        drop(guard);
        let after = within(other.mutex("copied").lock()).await.expect("it is free").fence();
        assert!(before < after);
    });
}

#[test]
fn a_node_is_sure_whom_it_talks_to() {
    with_server(async |server| {
        server.serve_tls();
        let connect = async |host: &str| {
            let root = server.file("root.crt").display().to_string();
            let url = format!(
                "postgres://journal@{host}:{}/postgres?sslmode=verify-full&sslrootcert={root}",
                server.port()
            );
            Cluster::connect(&url, Config::default()).await
        };
        connect("localhost").await.expect("a node").leave().await;
        let error = connect("127.0.0.1").await.expect_err("it has another name");
        assert!(error.is_transient(), "{error}");
    });
}
