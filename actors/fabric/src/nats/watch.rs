//! What a node notices of its connection.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::message::OutboundMessage;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::connection::Losses;
use super::control::discover;
use super::link::Link;
use super::pulse::{PULSE, SILENT};

/// Asks the server until the node leaves, and ends each connection to one that is silent.
pub(super) async fn watch_silence(link: Weak<Link>, ping_interval: Duration) {
    let mut intervals = interval(ping_interval);
    intervals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = intervals.tick().await;
        let Some(link) = link.upgrade().filter(|link| !link.is_closed()) else { return };
        let is_connected = link.connection.is_connected();
        if link.pulse.pass(is_connected) {
            tracing::warn!(silence = ?link.pulse.silence(), "the NATS server is silent");
            link.connection.renew();
            continue;
        }
        if !is_connected {
            continue;
        }
        // what did not run may have lost its name to another one; that one may end
        let stood_still = due.elapsed() > SILENT * ping_interval;
        if stood_still || link.has_twin.load(Ordering::Relaxed) {
            let link = Arc::clone(&link);
            tokio::spawn(async move { drop(discover(&link).await) });
        }
        let subject = link.calls.subject().replace('*', PULSE).into();
        let message =
            OutboundMessage { subject, reply: None, payload: Bytes::new(), headers: None };
        // one for which there is no room is one without an answer
        let _ = link.connection.publish(message).now_or_never();
    }
}

/// Ends the calls of a node whenever its connection is lost: their answers are lost with it.
pub(super) async fn watch_losses(link: Weak<Link>, mut losses: watch::Receiver<Losses>) {
    let mut known = 0;
    while losses.changed().await.is_ok() {
        let Some(link) = link.upgrade() else { return };
        let Losses { count, is_over } = *losses.borrow_and_update();
        if count > known {
            known = count;
            tracing::warn!(losses = count, "the connection to the NATS server was lost");
            link.calls.lose_all();
        }
        if is_over {
            *link.reconnected.lock() = Some(Instant::now());
            // another node may have taken the name meanwhile
            tokio::spawn(async move { drop(discover(&link).await) });
        }
    }
}

/// Ends the calls whose messages the server does not permit.
pub(super) async fn end_refused(link: Weak<Link>, mut refused: mpsc::UnboundedReceiver<String>) {
    while let Some(subject) = refused.recv().await {
        let Some(link) = link.upgrade() else { return };
        link.calls.refuse(&subject);
    }
}
