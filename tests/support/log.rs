//! The log of a test, kept for it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Keeps what is logged on this thread.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Logs until the guard is dropped.
    #[must_use]
    pub fn open(&self) -> DefaultGuard {
        let log = tracing_subscriber::fmt().with_ansi(false).without_time();
        tracing::subscriber::set_default(log.with_writer(self.clone()).finish())
    }

    /// The same with a line for each request, when it is over.
    #[must_use]
    pub fn open_with_spans(&self) -> DefaultGuard {
        let log = tracing_subscriber::fmt().with_ansi(false).with_span_events(FmtSpan::CLOSE);
        tracing::subscriber::set_default(log.with_writer(self.clone()).finish())
    }

    /// What was logged since the last time.
    #[must_use]
    pub fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
