//! Dials of servers that the tests start.

/// Hosts that are silent or take no changes, and what is set.
mod hosts;
/// TLS with a server that has an authority of its own.
mod tls;
