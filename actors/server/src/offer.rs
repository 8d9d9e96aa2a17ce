//! A connection on its way to the worker that serves it.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::connections::Connected;
use super::tls::Handshakes;

/// A connection that was made.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    /// Of its listener, if that speaks TLS.
    pub(super) handshakes: Option<Handshakes>,
    pub(super) connected: Connected,
}

/// A connection for the worker that takes it first.
#[derive(Clone)]
pub(super) struct Offer(Arc<Mutex<Option<Accepted>>>);

impl Offer {
    pub(super) fn new(accepted: Accepted) -> Self {
        Self(Arc::new(Mutex::new(Some(accepted))))
    }

    pub(super) fn take(&self) -> Option<Accepted> {
        self.0.lock().take()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// How a worker takes orders.
#[derive(Clone, Default)]
pub(super) struct Pace(Arc<(AtomicU8, OnceLock<IsBlocked>)>);

/// Whether a worker is blocked.
pub(super) type IsBlocked = Box<dyn Fn() -> bool + Send + Sync>;

impl Pace {
    pub(super) const LATE: u8 = 1;
    pub(super) const STUCK: u8 = 2;

    /// It begins, with a check of whether it is blocked.
    pub(super) fn begins(&self, is_blocked: IsBlocked) {
        let _ = self.0.1.set(is_blocked);
    }

    /// It takes one.
    pub(super) fn moves(&self) {
        self.0.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.0.1.get().is_some_and(|is_blocked| is_blocked())
    }

    pub(super) fn at_least(&self, level: u8) {
        self.0.0.fetch_max(level, Ordering::Relaxed);
    }

    pub(super) fn level(&self) -> u8 {
        self.0.0.load(Ordering::Relaxed)
    }
}
