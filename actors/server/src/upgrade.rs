//! What a connection becomes when it is no longer HTTP.

use std::rc::Rc;

use bytes::BytesMut;
use futures_util::future::LocalBoxFuture;

use super::account::Account;
use super::io::Io;

/// What a connection becomes after an answer with 101.
pub trait Upgrade {
    /// Serves the connection, of which `read` was read behind the request; what it holds of memory counts in `account`.
    /// Returns the connection if what was written last has to arrive.
    fn serve(
        self: Box<Self>,
        io: Io,
        read: BytesMut,
        account: Rc<Account>,
    ) -> LocalBoxFuture<'static, Option<Io>>;
}
