//! How long a connection is kept for its next request.

use std::time::Duration;

use asyncsteps_budget::Client;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::alarm::later;
use super::connections::Connections;
use super::fields::FieldsSummary;

/// How long a connection is kept at least, and at most while there are many.
const BRIEF: Duration = Duration::from_secs(5);

/// How much longer it is kept than is said: a request that is sent just in time is on its way then, and one that meets the
/// end of its connection is lost to its client, who cannot know whether it was carried out.
const MARGIN: Duration = Duration::from_secs(1);

/// The field of answers over HTTP/1.1 that says how long a connection is kept (RFC 2068 §19.7.1.1), to clients that ask
/// for it by `Connection: keep-alive`, as browsers and Node.js do: for others it is a cost without a use.
pub(super) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The value of that field; nothing if it is less than a second.
pub(super) fn field(most: Duration) -> Option<HeaderValue> {
    let seconds = Some(most.as_secs()).filter(|seconds| *seconds > 0)?;
    HeaderValue::try_from(format!("timeout={seconds}")).ok()
}

/// Whether the client of a request asks for that field.
pub(super) fn is_asked_for(headers: &HeaderMap, fields: FieldsSummary) -> bool {
    fields.may_have(CONNECTION.as_str())
        && headers
            .get(CONNECTION)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"keep-alive"))
}

/// How long a connection is kept: shorter while new ones may soon be refused.
pub(super) struct KeepAlive {
    most: Duration,
    connections: Connections,
    client: Client,
}

impl KeepAlive {
    pub(super) fn new(most: Duration, connections: &Connections, client: &Client) -> Self {
        Self { most, connections: connections.clone(), client: client.clone() }
    }

    /// When a connection ends that is idle `since` then, or has to be looked at again.
    pub(super) fn until(&self, since: Instant, now: Instant) -> Instant {
        let since = since + MARGIN;
        let brief = since + BRIEF.min(self.most);
        match now < brief || self.connections.are_many(&self.client) {
            true => brief,
            false => later(since, self.most).min(now + BRIEF),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_make_way_while_there_are_many() {
        let connections = Connections::new(8, 6);
        let [ann, bob] = [1, 2].map(|host| ([10, 0, 0, host], 80).into());
        let keep_alive = |peer: std::net::SocketAddr| {
            KeepAlive::new(Duration::from_secs(12), &connections, &Client::from(peer))
        };
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let until = |peer, now| keep_alive(peer).until(at(100), at(now));
        assert_eq!([100, 105, 106, 112].map(|now| until(ann, now)), [106, 106, 111, 113].map(at));
        let of_ann: Vec<_> = (0..5).map(|_| connections.enter(ann)).collect();
        assert_eq!([ann, bob].map(|peer| until(peer, 107)), [106, 112].map(at));
        let of_bob: Vec<_> = (0..2).map(|_| connections.enter(bob)).collect();
        assert_eq!(until(bob, 107), at(106));
        drop((of_ann, of_bob));
        assert_eq!(until(ann, 107), at(112));
    }
}
