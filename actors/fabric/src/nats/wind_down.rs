//! Ending a subscription without losing a message.

use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt;

use super::admission::Admission;

/// How many more messages a subscription asks for before it ends, from the first attempt to the last.
const MARGINS: [u64; 4] = [256, 32, 4, 1];

/// How long an attempt may take: far more than messages are under way between server and client.
const PATIENCE: Duration = Duration::from_millis(100);

/// Ends a subscription, of which so many messages were received, without losing one.
///
/// A client that says that it wants no more still gets what the server has sent before it hears of that, and
/// the client of NATS drops what comes after its next turn. Asking for an exact number of messages loses
/// none: both ends count. The number must be larger than what is under way, and so many messages must
/// come; so it begins large, and becomes smaller as long as too few come. When none comes in the end, none
/// is under way either.
pub(super) async fn wind_down(admission: &Admission, mut requests: Subscriber, mut received: u64) {
    // after a reconnect the two ends have counted different numbers
    if !admission.link.state.was_lost() {
        for margin in MARGINS {
            if requests.unsubscribe_after(received + margin).await.is_err() {
                break;
            }
            let taken = tokio::time::timeout(PATIENCE, async {
                while let Some(request) = requests.next().await {
                    received += 1;
                    admission.take(request).await;
                }
            });
            if taken.await.is_ok() {
                return;
            }
        }
    }
    // an error says that the connection has ended
    if requests.drain().await.is_ok() {
        while let Some(request) = requests.next().await {
            admission.take(request).await;
        }
    }
}
