//! What a request costs the server does not depend on what the server knows of the tables, nor on how much is in them.

use std::time::Duration;

use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_journal::record::{Ended, Ending};
use asyncsteps_journal::request::{
    Append, CallerKey, CallerQuota, Claim, Disposition, FirstOwner, Program, Query, Signal, Submit,
};
use asyncsteps_journal::{Epoch, Event, Incarnation, Journal, Path, Record, RecordId, Uid, Value};
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;
use tokio_postgres::{Client, NoTls};

use crate::flows::{entry, run, submit};

/// Flows that are in flight at the same time.
const CROWD: usize = 100;

/// Appends of each flow.
const APPENDS: u64 = 25;

/// What the server counted for the tables of a journal.
#[derive(Debug)]
struct Counts {
    /// Tables that were read as a whole.
    scans: i64,
    pages: i64,
    /// Changes of flows.
    updates: i64,
    /// Those that changed no index.
    hot: i64,
}

async fn counts(client: &Client, schema: &str) -> Counts {
    let others = "SELECT count(*) FROM pg_stat_activity \
                  WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    // a session that has ended has reported all that it did
    while client.query_one(others, &[]).await.expect("a count").get::<_, i64>(0) > 0 {}
    let sql = "SELECT (sum(seq_scan) FILTER (WHERE relname <> 'journal'))::bigint, \
               sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint, \
               (sum(n_tup_upd) FILTER (WHERE relname = 'flow'))::bigint, \
               (sum(n_tup_hot_upd) FILTER (WHERE relname = 'flow'))::bigint \
               FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (schemaname, relname) \
               WHERE schemaname = $1 AND relname IN ('flow', 'record', 'signal', 'journal')";
    let row = client.query_one(sql, &[&schema]).await.expect("counts");
    Counts { scans: row.get(0), pages: row.get(1), updates: row.get(2), hot: row.get(3) }
}

/// What the server counts for so many flows of a new journal.
async fn costs(server: &Server, schema: &str, flows: usize, before: &str) -> Counts {
    let (client, connection) = server.config().connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let options = Options { schema: schema.to_owned(), ..Options::new("test") };
    let journal = Postgres::connect(server.config(), options).await.expect("a journal");
    client.batch_execute(before).await.expect("it may do so");
    let node = journal.register(Duration::from_secs(3600)).await.expect("a node").node;
    for _ in 0..flows / CROWD {
        crowd(&journal, node).await;
    }
    drop(journal);
    counts(&client, schema).await
}

/// Flows that are submitted, claimed, wait, get a signal, go on and end.
async fn crowd(journal: &Postgres, node: Incarnation) {
    let submits = (0..CROWD).map(|number| {
        let mut new = submit(FirstOwner::Any);
        new.started.user = Some(format!(r#"{{"lid":"{}"}}"#, new.uid));
        new.key = Some(CallerKey { scope: "s".to_owned(), key: new.uid.to_string() });
        let quota = CallerQuota { caller: format!("c{number}"), most: 9, group: None };
        let tags = vec!["all".to_owned(), new.uid.to_string()];
        Submit { quota: Some(quota), tags, ..new }
    });
    let submits: Vec<Submit> = submits.collect();
    let uids: Vec<Uid> = submits.iter().map(|submit| submit.uid).collect();
    for stored in join_all(submits.into_iter().map(|submit| journal.submit(submit))).await {
        stored.expect("a new flow");
    }
    assert_eq!(claim(journal, node).await, CROWD);
    for first in 1..APPENDS {
        append(journal, &uids, |uid| {
            let last = RecordId { epoch: Epoch::new(1), sequence: first.saturating_sub(1) };
            Append { replaces: vec![last], ..entry(uid, first, "a receipt") }
        })
        .await;
    }
    let park = Disposition::Park(Some(Duration::from_secs(3600)));
    append(journal, &uids, |uid| Append {
        records: Vec::new(),
        then: park.clone(),
        ..entry(uid, APPENDS, "")
    })
    .await;
    for uid in &uids {
        let id = Uid::random().expect("random bytes");
        let value = Value::encode(&()).expect("a value");
        journal.signal(*uid, Signal { id, name: "s".to_owned(), value }).await.expect("stored");
    }
    assert_eq!(claim(journal, node).await, CROWD);
    assert_eq!(journal.news(node).await.expect("an answer").len(), CROWD);
    reads(journal, &uids[0]).await;
    let end = Event::Ended(Ended { ending: Ending::Cancelled });
    append(journal, &uids, |uid| Append {
        epoch: Epoch::new(2),
        records: vec![Record::new(Path::template("t"), end.clone())],
        takes: vec![1],
        seen: 1,
        ..entry(uid, APPENDS, "")
    })
    .await;
    journal.remove(uids[..1].to_vec()).await.expect("it has ended");
    journal.trim(Duration::from_secs(3600)).await.expect("an answer");
}

async fn append(journal: &Postgres, uids: &[Uid], entry: impl Fn(Uid) -> Append) {
    let entries = uids.iter().map(|uid| entry(*uid)).collect();
    for written in journal.append(entries).await.expect("an answer") {
        written.expect("it is of this owner");
    }
}

/// Claims what can be claimed; returns how many flows that were.
async fn claim(journal: &Postgres, node: Incarnation) -> usize {
    let program = Program { template: "t".to_owned(), version: 1, compatible: Vec::new() };
    let ticket = Uid::random().expect("random bytes");
    let claim = Claim {
        node,
        ticket,
        programs: vec![program],
        limit: 200,
        awaited: vec![ticket],
        suspects: 1,
    };
    journal.claim(claim).await.expect("the node lives").len()
}

/// All that is found by something.
async fn reads(journal: &Postgres, uid: &Uid) {
    assert_eq!(journal.load(*uid).await.expect("the flow").inbox.signals.len(), 1);
    journal.status(*uid).await.expect("the flow");
    let key = CallerKey { scope: "s".to_owned(), key: uid.to_string() };
    assert_eq!(journal.find(key).await.expect("an answer"), Some(*uid));
    let open = Query { open: true, scope: Some("s".to_owned()), limit: 9, ..Query::default() };
    assert_eq!(journal.list(open).await.expect("an answer").len(), 9);
    let own = || Some(uid.to_string());
    for (user, key, tag) in [(own(), None, None), (None, own(), None), (None, None, own())] {
        let query = Query { user, key, tag, limit: 9, ..Query::default() };
        assert_eq!(journal.list(query).await.expect("an answer").len(), 1);
    }
}

#[test]
fn an_append_costs_the_same_whatever_the_server_knows_of_the_tables() {
    let Some(server) = Server::start() else { return };
    run(async {
        let (client, connection) = server.config().connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute("ALTER SYSTEM SET autovacuum = off").await.expect("it may do so");
        client.batch_execute("SELECT pg_reload_conf()").await.expect("it may do so");
        drop(client);
        let few = costs(&server, "few", CROWD, "").await;
        for (schema, crowds, before) in [("many", 20, ""), ("empty", 10, "ANALYZE")] {
            let costs = costs(&server, schema, crowds * CROWD, before).await;
            assert_eq!(costs.scans, few.scans, "{schema}: tables are read as a whole");
            let most = few.pages * crowds as i64 * 14 / 10;
            assert!(costs.pages < most, "{schema}: {costs:?}, and {few:?} for a few");
            // a step that replaces a record needs no index; the five that change the state or the owner do
            let rest = costs.updates - costs.hot;
            assert!(rest * 10 < costs.updates * 3, "{schema}: {costs:?}");
        }
    });
}
