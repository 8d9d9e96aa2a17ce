//! What happens to the locks of a process that is killed or stopped.

use futures_util::future::poll_immediate;
use tokio_postgres::Client;

use super::child::{Holder, LOCK, was_holder, write};
use super::world::{node, number, tables, url, with_server, within};

/// The lease of the process, in milliseconds: longer than any pause of a busy machine that is likely.
const LEASE: u64 = 5000;

/// When the lease of the holder is over, by the server.
async fn end_of_lease(tables: &Client) -> i64 {
    let sql = "SELECT lease_end(ends, lease) FROM node WHERE id IN (SELECT holder FROM mutex)";
    number(tables, sql).await
}

#[test]
fn the_lock_of_a_killed_process_is_free_after_its_lease_and_not_before() {
    if was_holder() {
        return;
    }
    with_server(async |server| {
        let (contender, tables) = (node(server).await, tables(server).await);
        let name = "processes::the_lock_of_a_killed_process_is_free_after_its_lease_and_not_before";
        let mut holder = Holder::start(name, &url(server), LEASE);
        let epoch: u64 = holder.said("holds").await.parse().expect("a number");
        let mutex = contender.mutex(LOCK);
        let mut taken = Box::pin(mutex.lock());
        assert!(poll_immediate(&mut taken).await.is_none(), "it is held");
        holder.kill();
        let end = end_of_lease(&tables).await;
        let guard = within(taken).await.expect("it comes free");
        assert!(number(&tables, "SELECT now_ms()").await >= end, "not before");
        assert!(guard.fence().epoch() > epoch);
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
