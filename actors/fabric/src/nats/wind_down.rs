//! The end of a subscription that loses no message.

use std::time::Duration;

use async_nats::Message;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::connection::Subscription;

/// How many more messages a subscription asks for before it ends, from the first attempt to the last.
const MARGINS: [u64; 4] = [256, 32, 4, 1];

/// How long an attempt may take: far longer than messages are in flight between server and client.
const PATIENCE: Duration = Duration::from_millis(100);

/// A subscription that ends.
struct EndingSubscription<C> {
    messages: Box<dyn Subscription>,
    /// How many messages it has received since it was made.
    received: u64,
    /// The attempts that are left.
    margins: &'static [u64],
    /// Nothing more is asked for.
    is_over: bool,
    /// When the attempt of now ends.
    until: Instant,
    is_connected: C,
}

/// Ends a subscription, of which `received` messages were received, and returns those that are in flight.
///
/// A client that says that it wants no more still gets what the server has sent before it hears of that, and the
/// client of NATS drops messages that come after its next turn. Asking for an exact number of messages loses none:
/// both ends count. The number must be larger than what is in flight, and that many messages must come; so it
/// begins large, and becomes smaller as long as too few come. When none comes in the end, none is in flight either.
///
/// `None` for a subscription whose connection was lost since it was made: then the two ends have counted different
/// numbers.
pub(super) fn wind_down(
    messages: Box<dyn Subscription>,
    received: Option<u64>,
    is_connected: impl Fn() -> bool + Send + 'static,
) -> impl Stream<Item = Message> + Send {
    let margins: &[u64] = if received.is_some() { &MARGINS } else { &[] };
    let (received, until) = (received.unwrap_or_default(), Instant::now());
    let ending =
        EndingSubscription { messages, received, margins, is_over: false, until, is_connected };
    stream::unfold(ending, EndingSubscription::next)
}

impl<C: Fn() -> bool> EndingSubscription<C> {
    async fn next(mut self) -> Option<(Message, Self)> {
        loop {
            if let Ok(message) = timeout_at(self.until, self.messages.next()).await {
                self.received += 1;
                return message.map(|message| (message, self));
            }
            let asked = match self.margins.split_first() {
                Some((margin, rest)) => {
                    self.margins = rest;
                    self.messages.unsubscribe(Some(self.received + margin)).await
                }
                None if !self.is_over => {
                    self.is_over = true;
                    self.messages.unsubscribe(None).await
                }
                None => Ok(()),
            };
            // without a connection nothing is in flight, and the end of the subscription is not reported
            if asked.is_err() || !(self.is_connected)() {
                return None;
            }
            self.until = Instant::now() + PATIENCE;
        }
    }
}
