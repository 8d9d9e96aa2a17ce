//! A standby takes the place of its primary, while changes are asked for.

use asyncsteps_journal::Journal;
use asyncsteps_journal::postgres::{Options, Postgres};
use asyncsteps_postgres_server::Server;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::config::Host;

use super::load::{Load, raw};
use crate::flows::run;

async fn is(client: &Client, sql: &str) -> bool {
    client.query_one(sql, &[]).await.expect("a row").get(0)
}

/// From now on a commit is answered when the standby has it.
async fn wait_for_standby(primary: &Client) {
    primary
        .batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        .await
        .expect("it is set");
    primary.execute("SELECT pg_reload_conf()", &[]).await.expect("it is read");
    let sql = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'";
    while !is(primary, sql).await {}
}

#[test]
fn no_answered_change_is_lost_or_doubled_when_a_standby_takes_over() {
    let rounds = if std::env::var_os("LONG_TESTS").is_some() { 20 } else { 2 };
    let Some(mut primary) = Server::start() else { return };
    let mut standby = primary.standby();
    run(async {
        let mut both = primary.config();
        for host in standby.config().get_hosts() {
            let Host::Unix(folder) = host else { panic!("it has a socket") };
            both.host_path(folder);
        }
        let journal = Postgres::connect(both, Options::new("test")).await.expect("a journal");
        let load = Load::start(&journal).await;
        for round in 0..rounds {
            wait_for_standby(&raw(&primary).await).await;
            let failover = async {
                if round % 2 == 0 {
                    primary.end("KILL");
                } else {
                    // nobody answers, and connections stay
                    primary.freeze();
                    let mut sessions = journal.session();
                    while journal.lost_since().is_none() {
                        sessions.changed().await.expect("the journal is there");
                    }
                }
                let next = raw(&standby).await;
                next.execute("SELECT pg_promote(wait => false)", &[]).await.expect("it is asked");
                while is(&next, "SELECT pg_is_in_recovery()").await {}
                let promoted = Instant::now();
                load.next().await;
                println!("round {round}: {:?} after the promotion", promoted.elapsed());
            };
            load.during(failover).await;
            if round + 1 < rounds {
                primary.follow(&standby);
            }
            std::mem::swap(&mut primary, &mut standby);
        }
        load.check(&journal).await;
    });
}
