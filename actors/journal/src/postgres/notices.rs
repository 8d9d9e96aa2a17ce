//! Notifying other nodes that there may be work.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};

use super::session::{PostgresServer, SessionFailure};

/// How long a notice waits for others: the server notifies all listeners of each one, and they look
/// once for all of them.
const TOGETHER: Duration = Duration::from_millis(10);

/// How long to wait before connecting again. Nodes look by themselves meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens for the notices of other nodes, and sends the notices of this one, until it is aborted.
pub(super) async fn exchange(
    server: Arc<PostgresServer>,
    channel: String,
    changes: watch::Sender<u64>,
    wishes: Arc<Notify>,
) {
    loop {
        // a failure is one of the connection: the next one begins anew
        let _ = connected(&server, &channel, &changes, &wishes).await;
        sleep(PAUSE).await;
    }
}

async fn connected(
    server: &PostgresServer,
    channel: &str,
    changes: &watch::Sender<u64>,
    wishes: &Notify,
) -> Result<(), SessionFailure> {
    let (client, mut connection) = server.connect().await?;
    let told = changes.clone();
    let listening = async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                told.send_modify(|number| *number += 1);
            }
        }
    };
    tokio::select! {
        () = listening => Ok(()),
        ended = sending(&client, channel, changes, wishes) => ended,
    }
}

async fn sending(
    client: &Client,
    channel: &str,
    changes: &watch::Sender<u64>,
    wishes: &Notify,
) -> Result<(), SessionFailure> {
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    // something may have happened before
    changes.send_modify(|number| *number += 1);
    loop {
        wishes.notified().await;
        sleep(TOGETHER).await;
        client.batch_execute(&format!("NOTIFY {channel}")).await?;
    }
}
