//! The queue of lines between the threads that log and the thread that writes.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::format::Format;

/// How long the thread waits when a non-blocking output, such as a pipe, is full.
const PAUSE: Duration = Duration::from_millis(10);

/// How long the end of a program waits until its last lines are written: a healthy reader needs
/// milliseconds, and a stuck one must not keep the program alive.
pub(super) const LAST_LINES: Duration = Duration::from_secs(1);

/// The target of what the log says of itself.
const TARGET: &str = "asyncsteps::log";

/// Lines that wait to be written, as bytes, up to a limit.
#[derive(Debug)]
pub(super) struct Queue {
    limit: usize,
    state: Mutex<State>,
    /// Lines came, lines were written, or the log was closed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// The thread has taken lines and not written all of them.
    is_writing: bool,
    is_closed: bool,
    /// Set when the log was closed and had its time to write the rest.
    is_over: bool,
    /// Lines that were dropped, in all.
    dropped: u64,
}

impl Queue {
    /// Starts the thread that writes to `output`.
    pub(super) fn start(
        limit: usize,
        format: Format,
        output: Box<dyn Write + Send>,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self { limit, state: Mutex::default(), changed: Condvar::new() });
        let lines = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || lines.work(format, output))?;
        Ok(queue)
    }

    /// Adds lines, all of them or none.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        if state.is_closed || state.waiting.len() + lines.len() > self.limit {
            state.dropped += count(lines);
            return;
        }
        state.waiting.extend_from_slice(lines);
        self.changed.notify_all();
    }

    /// How many lines were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Waits until all lines are written, no longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let unwritten = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        // lines that are not written by then stay unwritten
        let _ = self.changed.wait_while_for(&mut self.state.lock(), unwritten, limit);
    }

    /// Takes no more lines, and waits as [`flush`](Self::flush) does; then the thread ends.
    pub(super) fn close(&self, limit: Duration) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
        self.flush(limit);
        self.state.lock().is_over = true;
    }

    /// The thread: writes lines until the log is closed.
    fn work(&self, format: Format, mut output: Box<dyn Write + Send>) {
        let mut lines = Vec::new();
        let mut told = 0;
        while let Some(dropped) = self.take(&mut lines) {
            let lost = self.write(&mut output, &lines);
            self.state.lock().dropped += lost;
            if dropped > told {
                let lines = ("lines", (dropped - told).to_string());
                let line = format.line("WARN", TARGET, "lines of the log were dropped", &[lines]);
                if self.write(&mut output, line.as_bytes()) == 0 {
                    told = dropped;
                }
            }
        }
    }

    /// Waits for lines and takes them all; returns how many were dropped so far. `None` if the log
    /// is closed and nothing is left.
    fn take(&self, lines: &mut Vec<u8>) -> Option<u64> {
        lines.clear();
        let mut state = self.state.lock();
        state.is_writing = false;
        self.changed.notify_all();
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        self.changed.wait_while(&mut state, idle);
        if state.waiting.is_empty() {
            return None;
        }
        state.is_writing = true;
        mem::swap(&mut state.waiting, lines);
        Some(state.dropped)
    }

    /// Writes lines; returns how many of them an error lost.
    fn write(&self, output: &mut dyn Write, lines: &[u8]) -> u64 {
        let mut unwritten = lines;
        while !unwritten.is_empty() {
            match output.write(unwritten) {
                Ok(written @ 1..) => unwritten = &unwritten[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && !self.state.lock().is_over =>
                {
                    thread::park_timeout(PAUSE);
                }
                Ok(0) | Err(_) => return count(unwritten),
            }
        }
        // an error of a buffer is one of the next line
        let _ = output.flush();
        0
    }
}

/// The lines in a part of the log; one without its beginning or its end counts.
fn count(lines: &[u8]) -> u64 {
    let ends = lines.iter().filter(|byte| **byte == b'\n').count();
    u64::try_from(ends).unwrap_or(u64::MAX)
}

/// Where `tracing` writes to: it never waits and never fails.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
