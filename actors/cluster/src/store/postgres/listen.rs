//! Notices from the server that a lock was released.

use std::future::poll_fn;
use std::time::Duration;

use asyncsteps_postgres::mend_sequences;
use tokio::time::sleep;
use tokio_postgres::AsyncMessage;

use super::LockDatabase;
use super::schema::SEQUENCES;
use crate::error::Error;
use crate::store::Freed;

/// How long to wait before connecting again; waiters ask by themselves meanwhile.
const PAUSE: Duration = Duration::from_millis(500);

/// Listens for ever.
pub(super) async fn listen(database: &LockDatabase, freed: &Freed<'_>) {
    loop {
        if let Err(error) = listen_once(database, freed).await {
            tracing::debug!(%error, "notices of the cluster are lost: listening again");
        }
        sleep(PAUSE).await;
    }
}

/// How often the server is asked whether it is there.
const ASK: Duration = Duration::from_secs(1);

/// Listens until the connection is lost or the server is silent.
async fn listen_once(database: &LockDatabase, freed: &Freed<'_>) -> Result<(), Error> {
    let (client, mut connection) = database.connect().await?;
    let listening = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message? {
                let lock: Option<(String, String)> = serde_json::from_str(notice.payload()).ok();
                freed(lock.as_ref().map(|(name, key)| (name.as_str(), key.as_str())));
            }
        }
        Ok(())
    };
    let asking = async {
        let ask = async |sql: &str| {
            let answer = async { Ok::<_, Error>(client.batch_execute(sql).await?) };
            database.dial.within(answer).await
        };
        // this may be another server
        mend_sequences(&client, &SEQUENCES).await?;
        ask(&format!("LISTEN cluster_{}", database.schema)).await?;
        // a lock may have been released before
        freed(None);
        loop {
            sleep(ASK).await;
            ask("").await?;
        }
    };
    tokio::select! {
        biased;
        ended = listening => ended,
        failed = asking => failed,
    }
}
