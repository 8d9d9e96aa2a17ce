//! Dials of servers that the tests start.

/// TLS with a server that has an authority of its own.
mod tls;
