//! What is counted of connections.

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what counts connections counts all of them")]
pub enum Protocol {
    /// Nothing so far.
    New,
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// What is counted beside open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what counts connections counts all of them")]
pub enum Counted {
    /// A connection was refused, because there were too many.
    OverLimit,
    /// A connection failed before it was made, such as in a TLS handshake.
    Failed,
    /// A connection was cut before its client had all of its answers.
    Cut,
    /// So many bytes were read, without the overhead of TLS.
    Received(usize),
    /// So many bytes were written, without the overhead of TLS.
    Sent(usize),
}

/// Counts the connections and bytes of a worker; a cheap handle.
pub trait Traffic: Clone + Send + Sync + Unpin + 'static {
    /// Counts a connection of a protocol, until it is dropped.
    type Open: 'static;

    /// A protocol begins on a connection.
    fn open(&self, protocol: Protocol) -> Self::Open;

    /// Counts this.
    fn count(&self, event: Counted);
}

/// Counts nothing.
impl Traffic for () {
    type Open = ();

    fn open(&self, _: Protocol) {}

    fn count(&self, _: Counted) {}
}
