//! What happens to the locks of a process that is killed or stopped.

use futures_util::future::poll_immediate;
use tokio_postgres::Client;

use super::child::{Holder, LOCK, was_holder, write};
use super::world::{node, number, tables, until, url, with_server, within};

/// The lease of the process, in milliseconds: longer than any pause of a busy machine that is likely.
const LEASE: u64 = 5000;

/// When the lease of the holder is over, by the server.
async fn end_of_lease(tables: &Client) -> i64 {
    let sql = "SELECT lease_end(ends, lease) FROM node WHERE id IN (SELECT holder FROM mutex)";
    number(tables, sql).await
}

#[test]
fn the_lock_of_a_killed_process_is_free_an_eighth_of_its_lease_after_that_was_noticed() {
    if was_holder() {
        return;
    }
    with_server(async |server| {
        let (contender, tables) = (node(server).await, tables(server).await);
        let name = "processes::the_lock_of_a_killed_process_is_free_an_eighth_of_its_lease_after_that_was_noticed";
        let mut holder = Holder::start(name, &url(server), 8 * LEASE);
        let epoch: u64 = holder.said("holds").await.parse().expect("a number");
        let mutex = contender.mutex(LOCK);
        let mut taken = Box::pin(mutex.lock());
        assert!(poll_immediate(&mut taken).await.is_none(), "it is held");
        holder.kill();
        let end = end_of_lease(&tables).await;
        let killed = number(&tables, "SELECT now_ms()").await;
        let guard = within(taken).await.expect("it comes free");
        let free = number(&tables, "SELECT now_ms()").await;
        let eighth = i64::try_from(LEASE).expect("a number");
        // the others may have looked before this test did
        assert!((killed + eighth / 2..end).contains(&free), "{killed} {free} {end}");
        assert!(guard.fence().epoch() > epoch);
    });
}

#[test]
fn a_holder_whose_session_ends_renews_its_lease_on_another_one() {
    with_server(async |server| {
        let (one, other, tables) = (node(server).await, node(server).await, tables(server).await);
        let guard = one.mutex(LOCK).lock().await.expect("it is free");
        let session = "SELECT session::bigint FROM node WHERE id IN (SELECT holder FROM mutex)";
        let before = number(&tables, session).await;
        let cut = format!("SELECT pg_terminate_backend({before})::int::bigint");
        assert_eq!(number(&tables, &cut).await, 1);
        let wanted = other.mutex(LOCK);
        let mut taken = Box::pin(wanted.lock());
        let renewed = format!(
            "SELECT count(*) FROM node WHERE session <> {before} AND ends > now_ms() + 30000 \
             AND id IN (SELECT holder FROM mutex)"
        );
        tokio::select! {
            () = until(&tables, &renewed, 1) => {}
            _ = &mut taken => panic!("it is held"),
        }
        assert!(guard.is_valid());
        drop(guard);
        within(taken).await.map(drop).expect("it is given back");
    });
}

#[test]
fn a_process_that_was_stopped_past_its_lease_has_no_effect_and_its_section_ends() {
    if was_holder() {
        return;
    }
    with_server(async |server| {
        let (contender, tables) = (node(server).await, tables(server).await);
        let name = "processes::a_process_that_was_stopped_past_its_lease_has_no_effect_and_its_section_ends";
        let mut holder = Holder::start(name, &url(server), LEASE);
        holder.said("holds").await;
        holder.write();
        assert_eq!(holder.said("wrote").await, "1", "it is the holder");
        holder.signal("STOP");
        let end = end_of_lease(&tables).await;
        let guard = within(contender.mutex(LOCK).lock()).await.expect("it comes free");
        assert!(number(&tables, "SELECT now_ms()").await >= end, "not before");
        assert_eq!(write(&url(server), &guard.fence()).await, 1);
        holder.write();
        holder.signal("CONT");
        // in either order: the effect may be sent before the process sees that time has passed
        let mut said = [holder.next().await, holder.next().await];
        said.sort();
        assert_eq!(said, ["ended LockLost", "wrote 0"]);
        assert_eq!(write(&url(server), &guard.fence()).await, 1, "the new holder goes on");
    });
}

#[test]
fn a_short_stop_costs_nothing() {
    if was_holder() {
        return;
    }
    with_server(async |server| {
        let tables = tables_after(server).await;
        let mut holder =
            Holder::start("processes::a_short_stop_costs_nothing", &url(server), 60_000);
        let epoch = holder.said("holds").await;
        holder.signal("STOP");
        holder.signal("CONT");
        holder.write();
        assert_eq!(holder.said("wrote").await, "1");
        let held = number(&tables, "SELECT epoch FROM mutex WHERE holder IS NOT NULL").await;
        assert_eq!(held.to_string(), epoch);
    });
}

/// The tables, which a first node makes.
async fn tables_after(server: &asyncsteps_postgres_server::Server) -> Client {
    node(server).await.leave().await;
    tables(server).await
}
