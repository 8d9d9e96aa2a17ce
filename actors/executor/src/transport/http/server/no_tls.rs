//! Without the feature `rustls` there are no handshakes.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;

use actix_rt::net::TcpStream;

use super::io::Io;
use asyncsteps_actors::budget::Client;

/// There is none.
#[derive(Clone)]
pub(super) struct Handshakes(Infallible);

impl Handshakes {
    pub(super) fn shake(
        &self,
        _: TcpStream,
        _: &Client,
    ) -> Pin<Box<dyn Future<Output = io::Result<Io>>>> {
        match self.0 {}
    }
}
