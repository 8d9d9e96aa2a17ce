//! Without the feature `rustls` there are no handshakes.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;

use asyncsteps_budget::Client;
use tokio::net::TcpStream;

use super::account::Share;

/// There is none.
#[derive(Clone)]
pub(super) struct Handshakes(Infallible);

impl Handshakes {
    pub(super) fn shake(
        &self,
        _: TcpStream,
        _: &Client,
        _: Share,
    ) -> Pin<Box<dyn Future<Output = io::Result<Infallible>>>> {
        match self.0 {}
    }
}
