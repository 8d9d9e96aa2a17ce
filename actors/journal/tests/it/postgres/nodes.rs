//! Several nodes share a journal.

use std::collections::HashSet;
use std::task::{Context, Waker};
use std::time::Duration;

use asyncsteps_journal::postgres::{Config, Options, Postgres};
use asyncsteps_journal::record::{Ended, Ending, Started};
use asyncsteps_journal::request::{
    Append, CallerKey, CallerQuota, Claim, Claimed, Disposition, FirstOwner, FlowState, Program,
    Query, Submit, Submitted,
};
use asyncsteps_journal::{
    Clock, Error, Event, Incarnation, Journal, Path, Record, Refused, Repeat, SystemClock,
    Timestamp, Uid,
};
use asyncsteps_postgres_server::Server;
use futures_util::future::{join, join_all};
use tokio_postgres::NoTls;

use crate::flows::{entry, run, start, submit};

/// A lease that is longer than the test, unless it ends it.
const HOUR: Duration = Duration::from_secs(3600);

/// All in one test, because they share a server, behind a pooler that keeps sessions.
#[test]
fn several_nodes_share_a_journal() {
    let Some(mut server) = Server::start() else { return };
    _ = server.pool("session", 90);
    run(async {
        each_flow_is_claimed_by_one_node(&server).await;
        nodes_of_one_process_get_flows_at_the_same_time(&server).await;
        what_one_node_submits_wakes_another(&server).await;
        sessions_have_the_name_of_their_program(&server).await;
        the_flows_of_a_process_that_ends_are_taken_before_the_end_of_its_lease(&server).await;
        no_flow_is_taken_for_a_lease_after_the_server_started(&server).await;
        a_claim_that_is_dropped_leaves_nothing_locked(&server).await;
        a_jump_of_the_server_moves_no_lease_and_no_wait(&server).await;
        nodes_that_submit_at_once_keep_a_quota(&server).await;
        of_nodes_that_rerun_a_failed_flow_at_once_one_does(&server).await;
        tables_of_the_first_format_are_taken_over(&server).await;
        requests_of_the_format_before_go_on(&server).await;
        what_cannot_be_used_is_named(&server).await;
    });
}

async fn connect(server: &Server, schema: &str) -> Postgres {
    let options = Options { schema: schema.to_owned(), ..Options::new("test") };
    Postgres::connect(server.config(), options).await.expect("a journal")
}

/// A connection without a journal.
async fn raw(server: &Server, schema: &str) -> tokio_postgres::Client {
    let mut config = server.direct();
    config.options(format!("-c search_path={schema}")).application_name("raw");
    let (client, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

async fn claim(journal: &Postgres, node: Incarnation, limit: usize) -> Result<Vec<Claimed>, Error> {
    let program = Program { template: "t".to_owned(), version: 1, compatible: Vec::new() };
    let ticket = Uid::random().expect("random bytes");
    journal
        .claim(Claim {
            node,
            ticket,
            programs: vec![program],
            limit,
            awaited: Vec::new(),
            suspects: 1,
        })
        .await
}

async fn each_flow_is_claimed_by_one_node(server: &Server) {
    const FLOWS: usize = 300;
    let nodes = [connect(server, "shared").await, connect(server, "shared").await];
    join_all((0..FLOWS).map(|_| nodes[0].submit(submit(FirstOwner::Any)))).await;
    let some = async |journal: &Postgres, node| {
        let claimed = claim(journal, node, 10).await.expect("the node lives");
        claimed.into_iter().map(|claimed| claimed.uid).collect::<Vec<_>>()
    };
    let all = async |journal: &Postgres, node| {
        let mut given = Vec::new();
        loop {
            let more = some(journal, node).await;
            if more.is_empty() {
                break given;
            }
            given.extend(more);
        }
    };
    let register = async |journal: &Postgres| journal.register(HOUR).await.expect("a node").node;
    let (one, two) = (register(&nodes[0]).await, register(&nodes[1]).await);
    // each has its turn before one of them has them all
    let (mut given, other) = join(some(&nodes[0], one), some(&nodes[1], two)).await;
    assert!(!given.is_empty() && !other.is_empty(), "both get some");
    given.extend(other);
    let (more, other) = join(all(&nodes[0], one), all(&nodes[1], two)).await;
    given.extend(more.into_iter().chain(other));
    // a row that the other node had locked when it was skipped may be left
    given.extend(all(&nodes[0], one).await);
    assert_eq!(given.len(), FLOWS);
    assert_eq!(given.iter().collect::<HashSet<_>>().len(), FLOWS, "none is given twice");
}

async fn nodes_of_one_process_get_flows_at_the_same_time(server: &Server) {
    let journal = connect(server, "together").await;
    join_all((0..30).map(|_| journal.submit(submit(FirstOwner::Any)))).await;
    let register = async |_| journal.register(HOUR).await.expect("a node").node;
    let nodes = join_all((0..3).map(register)).await;
    // they are written as one group
    let claims = nodes.iter().map(async |node| {
        let claimed = claim(&journal, *node, 10).await.expect("the node lives");
        claimed.into_iter().map(|claimed| claimed.uid).collect::<HashSet<_>>()
    });
    let given = join_all(claims).await;
    assert!(given.iter().all(|given| given.len() == 10), "{given:?}");
    assert_eq!(
        given.into_iter().flatten().collect::<HashSet<_>>().len(),
        30,
        "none is given twice"
    );
}

async fn what_one_node_submits_wakes_another(server: &Server) {
    let (one, other) = (connect(server, "wakes").await, connect(server, "wakes").await);
    let mut changes = other.changes();
    // it listens
    changes.changed().await.expect("the journal is there");
    one.submit(submit(FirstOwner::Any)).await.expect("a new flow");
    changes.changed().await.expect("the journal is there");
}

async fn sessions_have_the_name_of_their_program(server: &Server) {
    let journal = connect(server, "named").await;
    let mut config = server.config();
    config.application_name("till");
    let options = Options { schema: "named".to_owned(), ..Options::new("test") };
    let other = Postgres::connect(config, options).await.expect("a journal");
    for journal in [&journal, &other] {
        journal
            .transaction(async |_| Ok(()))
            .await
            .map_err(|it| it.into_error())
            .expect("a session");
    }
    // those that a pooler keeps have none
    let sql = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE application_name NOT IN ('raw', '') \
               AND backend_type = 'client backend' ORDER BY 1";
    let rows = raw(server, "named").await.query(sql, &[]).await.expect("the sessions");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["test", "till"]);
}

/// Waits until a node of the process is known by a session, and this one is another than before.
async fn session(client: &tokio_postgres::Client, node: Incarnation, before: Option<i64>) -> i64 {
    let sql = "SELECT session FROM node WHERE id = $1 AND session IS DISTINCT FROM $2";
    let node = i64::try_from(node.get()).expect("a number");
    loop {
        if let Some(row) = client.query_opt(sql, &[&node, &before]).await.expect("the table")
            && let Some(session) = row.get(0)
        {
            return session;
        }
    }
}

async fn the_flows_of_a_process_that_ends_are_taken_before_the_end_of_its_lease(server: &Server) {
    let connect = async || connect(server, "dies").await;
    let (dies, lives, other) = (connect().await, connect().await, connect().await);
    let client = raw(server, "dies").await;
    let begin = async |journal: &Postgres| {
        let mut sessions = journal.session();
        sessions.wait_for(|number| *number > 0).await.expect("the journal is there");
        let node = journal.register(HOUR).await.expect("a node").node;
        (start(journal, node).await, node, session(&client, node, None).await)
    };
    let (_, living, before) = begin(&lives).await;
    let (lost, ..) = begin(&dies).await;
    let node = other.register(HOUR).await.expect("a node").node;
    // this one loses its session, and has another one before it counts as dead
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_locks \
                WHERE locktype = 'advisory' AND (classid::bigint << 32) + objid::bigint = $1";
    assert_eq!(client.execute(ends, &[&before]).await.expect("a lock"), 1);
    session(&client, living, Some(before)).await;
    drop(dies);

    let mut changes = other.changes();
    let claimed = loop {
        let claimed = claim(&other, node, 9).await.expect("the node lives");
        if !claimed.is_empty() {
            break claimed;
        }
        changes.changed().await.expect("the journal is there");
    };
    assert_eq!(claimed.iter().map(|claimed| claimed.uid).collect::<Vec<_>>(), [lost]);
    lives.renew(living, HOUR).await.expect("it has its lease");
}

async fn no_flow_is_taken_for_a_lease_after_the_server_started(server: &Server) {
    let journal = connect(server, "started").await;
    let client = raw(server, "started").await;
    let owner = journal.register(HOUR).await.expect("a node").node;
    start(&journal, owner).await;
    // it could not renew, because the server was away
    client.execute("UPDATE node SET ends = 0", &[]).await.expect("the table");
    let node = journal.register(HOUR).await.expect("a node").node;
    assert_eq!(claim(&journal, node, 9).await.expect("it lives"), []);
    journal.renew(owner, HOUR).await.expect("its lease was longer than the server is up");
    client
        .execute("UPDATE node SET ends = 0, lease = 1 WHERE id = $1", &[&1_i64])
        .await
        .expect("the table");
    assert_eq!(claim(&journal, node, 9).await.expect("it lives").len(), 1);
}

async fn a_claim_that_is_dropped_leaves_nothing_locked(server: &Server) {
    let (one, other) = (connect(server, "dropped").await, connect(server, "dropped").await);
    let node = one.register(HOUR).await.expect("a node").node;
    let next = other.register(HOUR).await.expect("a node").node;
    for turns in 1..12 {
        let new = submit(FirstOwner::Any);
        let uid = new.uid;
        one.submit(new).await.expect("a new flow");
        {
            let mut dropped = Box::pin(claim(&one, node, 9));
            for _ in 0..turns {
                let mut cx = Context::from_waker(Waker::noop());
                if dropped.as_mut().poll(&mut cx).is_ready() {
                    break;
                }
                // the server answers meanwhile
                other.status(uid).await.expect("the flow");
            }
        }
        // the server may still be at it: the claim is then done or not, and no lock stays
        let mut owner = None;
        while owner.is_none() {
            claim(&other, next, 9).await.expect("it lives");
            owner = other.status(uid).await.expect("the flow").flow.owner;
        }
        assert!([Some(node), Some(next)].contains(&owner));
        one.renew(node, HOUR).await.expect("it keeps its lease");
    }
}

/// What passes for a jump: the journal's clock said something else at the last look.
const DAY: i64 = 24 * 60 * 60 * 1000;

async fn a_jump_of_the_server_moves_no_lease_and_no_wait(server: &Server) {
    let journal = connect(server, "jumps").await;
    let client = raw(server, "jumps").await;
    let jump = async |by: i64| {
        let sql = "UPDATE journal SET wall = wall - $1::bigint";
        client.execute(sql, &[&by]).await.expect("the table");
    };
    let node = journal.register(HOUR).await.expect("a node").node;
    let ended = start(&journal, node).await;
    let end = Ended { ending: Ending::Cancelled };
    let end = Record::new(Path::template("t"), Event::Ended(end));
    let entries = vec![Append { records: vec![end], ..entry(ended, 1, "") }];
    journal.append(entries).await.expect("an answer")[0].clone().expect("it ends");
    let parked = start(&journal, node).await;
    let within = Some(HOUR);
    let park =
        Append { records: Vec::new(), then: Disposition::Park(within), ..entry(parked, 1, "") };
    journal.append(vec![park]).await.expect("an answer")[0].clone().expect("it is parked");
    let at = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000);
    let late = submit(FirstOwner::AnyFrom(at));
    journal.submit(late).await.expect("a new flow");
    for by in [DAY, -DAY] {
        jump(by).await;
        assert_eq!(claim(&journal, node, 9).await.expect("it keeps its lease"), []);
        assert_eq!(journal.trim(HOUR).await.expect("an answer"), 0);
        let reading = journal.renew(node, HOUR).await.expect("it keeps its lease");
        let jump = reading.jump.expect("it is reported");
        assert_eq!(jump.to > jump.from, by > 0, "{jump:?}");
        assert_eq!(claim(&journal, node, 9).await.expect("it keeps its lease"), []);
    }
}

async fn nodes_that_submit_at_once_keep_a_quota(server: &Server) {
    const MOST: u32 = 40;
    const SUBMITS: usize = 240;
    let nodes = [connect(server, "quota").await, connect(server, "quota").await];
    let quota =
        |caller: &str| CallerQuota { caller: caller.to_owned(), most: MOST.into(), group: None };
    let submits = (0..SUBMITS).map(|number| {
        // each node has submits of both
        let quota = Some(quota(["ann", "bob"][number / 2 % 2]));
        nodes[number % 2].submit(Submit { quota, ..submit(FirstOwner::Any) })
    });
    let answers = join_all(submits).await;
    for answer in &answers {
        let is_right =
            matches!(answer, Ok(_) | Err(Error::Refused(Refused::TooManyWaiting { .. })));
        assert!(is_right, "{answer:?}");
    }
    let client = raw(server, "quota").await;
    let rows = client.query("SELECT caller, count(*) FROM flow GROUP BY caller ORDER BY 1", &[]);
    let rows = rows.await.expect("the table");
    let stored: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (caller, stored) in &stored {
        // at first both nodes may have seen none of the other's, a quarter of the quota each
        assert!((i64::from(MOST)..=i64::from(MOST) * 5 / 4).contains(stored), "{caller}: {stored}");
    }
    assert_eq!(stored.len(), 2);
    // a node that has stopped while it counted keeps no other from refusing
    let stopped = "BEGIN; SELECT pg_advisory_xact_lock(x'4173634b'::int, hashtext('ann'))";
    client.batch_execute(stopped).await.expect("the lock of the caller");
    let more = Submit { quota: Some(quota("ann")), ..submit(FirstOwner::Any) };
    let refused = nodes[0].submit(more).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::TooManyWaiting { .. }))), "{refused:?}");
}

async fn of_nodes_that_rerun_a_failed_flow_at_once_one_does(server: &Server) {
    let nodes = [connect(server, "reruns").await, connect(server, "reruns").await];
    let node = nodes[0].register(HOUR).await.expect("a node").node;
    let keyed = |number: usize| {
        let key = CallerKey { scope: "a".to_owned(), key: number.to_string() };
        Submit { key: Some(key), reruns: true, ..submit(FirstOwner::Node(node)) }
    };
    const KEYS: usize = 20;
    for number in 0..KEYS {
        let first = keyed(number);
        nodes[0].submit(first.clone()).await.expect("a new flow");
        let ended = Ended { ending: Ending::Cancelled };
        let record = Record::new(Path::template(&first.started.template), Event::Ended(ended));
        let ended = Append { records: vec![record], ..entry(first.uid, 1, "") };
        nodes[0].append(vec![ended]).await.expect("an answer")[0].as_ref().expect("it is written");
    }
    // each node in another order
    let submits =
        (0..2 * KEYS).map(|at| (at % 2, if at % 2 == 0 { at / 2 } else { KEYS - 1 - at / 2 }));
    let answers =
        join_all(submits.map(async |(node, number)| nodes[node].submit(keyed(number)).await)).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
    let new = answers.iter().filter(|answer| **answer == Submitted::New);
    assert_eq!(new.count(), KEYS, "{answers:?}");
}

/// Takes away what format 4 has added.
const THIRD_FORMAT: &str = "ALTER TABLE flow DROP COLUMN local_id; DROP INDEX flow_key; \
    CREATE UNIQUE INDEX flow_key ON flow (scope, key) WHERE key IS NOT NULL; \
    UPDATE format SET number = 3";

async fn requests_of_the_format_before_go_on(server: &Server) {
    let journal = connect(server, "third").await;
    let mut uids = Vec::new();
    for user in [Some(r#"{"lid":"ann","gid":""}"#), Some("no JSON"), None] {
        let user = user.map(str::to_owned);
        let new = submit(FirstOwner::Any);
        uids.push(new.uid);
        let started = Started { user, ..new.started };
        journal.submit(Submit { started, ..new }).await.expect("a new flow");
    }
    drop(journal);
    raw(server, "third").await.batch_execute(THIRD_FORMAT).await.expect("the tables");
    let journal = connect(server, "third").await;
    for (user, expected) in [(Some("ann"), &uids[..1]), (None, &uids[..])] {
        let query = Query { user: user.map(str::to_owned), limit: 9, ..Query::default() };
        let listed = journal.list(query).await.expect("an answer");
        let listed: Vec<_> = listed.iter().map(|flow| flow.uid).collect();
        assert_eq!(listed, expected);
    }
}

async fn tables_of_the_first_format_are_taken_over(server: &Server) {
    let journal = connect(server, "format").await;
    let node = journal.register(HOUR).await.expect("a node").node;
    let uid = start(&journal, node).await;
    drop(journal);
    let client = raw(server, "format").await;
    client.batch_execute(THIRD_FORMAT).await.expect("the tables");
    let first = "DROP TABLE journal; DROP INDEX flow_waiting; ALTER TABLE flow DROP COLUMN due_passed; \
                 ALTER TABLE flow DROP COLUMN ended_seen; ALTER TABLE flow DROP COLUMN caller; \
                 ALTER TABLE flow DROP COLUMN cancel_code; ALTER TABLE flow DROP COLUMN cancel_text; \
                 CREATE INDEX flow_ended ON flow (ended) WHERE ended IS NOT NULL; \
                 UPDATE node SET ends = 1, lease = 0; UPDATE format SET number = 1";
    client.batch_execute(first).await.expect("the tables");
    let options = Options { schema: "format".to_owned(), ..Options::new("test") };
    let refused = Postgres::connect(server.config(), options).await.expect_err("one is open");
    assert!(matches!(refused, Error::OpenInFormat { open: 1, found: 1, known: 4 }), "{refused}");
    client.execute("UPDATE flow SET state = 7, ended = 1", &[]).await.expect("the table");
    let journal = connect(server, "format").await;
    assert_eq!(journal.status(uid).await.expect("it is there").flow.state, FlowState::Ended);
}

async fn what_cannot_be_used_is_named(server: &Server) {
    let connect = async |config: Config, schema: &str| {
        let options = Options { schema: schema.to_owned(), ..Options::new("test") };
        Postgres::connect(config, options).await.expect_err("it cannot be used")
    };
    for schema in ["", "a b", "x;y", "Upper", "1st", &"x".repeat(41)] {
        let error = connect(server.config(), schema).await;
        assert!(matches!(error, Error::Refused(Refused::NotSchema(_))), "{error}");
    }
    let mut nowhere = Config::new();
    nowhere.host_path("/nowhere").user("journal");
    let error = connect(nowhere, "x").await;
    assert_eq!(error.repeat(), Repeat::Later, "{error}");
    let client = raw(server, "shared").await;
    client.execute("UPDATE format SET number = 9", &[]).await.expect("the table");
    let error = connect(server.config(), "shared").await;
    assert!(matches!(error, Error::NewerFormat { found: 9, known: 4 }), "{error}");
}
