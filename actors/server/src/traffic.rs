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

/// Counts the connections and bytes of a worker; a cheap handle. By default nothing is counted.
pub trait Traffic: Clone + Send + Sync + Unpin + 'static {
    /// Counts a connection of a protocol, until it is dropped.
    type Open: 'static;

    /// A protocol begins on a connection.
    fn open(&self, protocol: Protocol) -> Self::Open;

    /// A connection was refused, because there were too many.
    fn over_limit(&self) {}

    /// A connection failed before it was made, such as in a TLS handshake.
    fn failed(&self) {}

    /// A connection was cut before its client had all of its answers.
    fn cut(&self) {}

    /// Bytes were read, without the overhead of TLS.
    fn received(&self, _bytes: usize) {}

    /// Bytes were written, without the overhead of TLS.
    fn sent(&self, _bytes: usize) {}
}

/// Counts nothing.
impl Traffic for () {
    type Open = ();

    fn open(&self, _: Protocol) {}
}
