//! Mistakes in calls from outside: the last one of each thread is kept, and all are logged. No panic
//! leaves the library.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::RwLock;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    /// The log function runs: its own mistakes are not logged.
    static LOGGING: Cell<bool> = const { Cell::new(false) };
}

pub(crate) type Log = Arc<dyn Fn(&CStr) + Send + Sync>;

static LOG: RwLock<Option<Log>> = RwLock::new(None);

/// The rule that a refused call broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// A pointer that must not be null is.
    Null(&'static str),
    /// The step has ended, or the root was freed.
    Stale,
    /// The call belongs on the thread of the event loop.
    Thread,
    /// The step is not the running one.
    NotRunning,
    /// The step was completed from outside, and does not wait.
    NotWaiting,
    /// Only roots have this function.
    NotRoot,
    /// Anything else, in words.
    Rule(&'static str),
}

impl Misuse {
    pub(crate) const ELSEWHERE: Self =
        Self::Rule("from another thread only through a root or a step that waits");
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(what) => write!(f, "{what} is NULL"),
            Self::Stale => f.write_str("the step is over or the root was freed"),
            Self::Thread => f.write_str("not on the thread of the event loop"),
            Self::NotRunning => f.write_str("the step is not the one that is running"),
            Self::NotWaiting => f.write_str("the step neither runs nor waits"),
            Self::NotRoot => f.write_str("not a root"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

/// Keeps a refused call as the last error of this thread, and logs it.
#[cold]
pub(crate) fn report(line: &str) {
    log(&c_text(line));
    keep(line);
}

/// Keeps something as the last error of this thread.
pub(crate) fn keep(line: &str) {
    // a thread that ends does not ask for it any more
    let _ = LAST.try_with(|last| last.replace(c_text(line)));
}

/// Text for C; everything after a NUL is lost.
pub(crate) fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// The last error of this thread; it stays where it is until the next one.
pub(crate) fn with_last<R>(see: impl FnOnce(&CStr) -> R) -> R {
    LAST.with_borrow(|last| see(last))
}

pub(crate) fn clear_last() {
    LAST.take();
}

pub(crate) fn set_log(log: Option<Log>) {
    *LOG.write() = log;
}

#[expect(clippy::print_stderr, reason = "where errors go without a log function")]
pub(crate) fn log(line: &CStr) {
    if LOGGING.try_with(|logging| logging.replace(true)).unwrap_or(true) {
        return;
    }
    let log = LOG.read().clone();
    match log {
        Some(log) => log(line),
        None => eprintln!("asyncsteps: {}", line.to_string_lossy()),
    }
    LOGGING.set(false);
}

/// Runs what must not panic into another language; a panic is reported.
pub(crate) fn contained<R: Default>(what: &str, run: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&'static str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        report(&format!("{what}: panic: {}", text.unwrap_or("a value that is not text")));
        // a payload whose destructor panics is not worth a crash
        std::mem::forget(payload);
        R::default()
    })
}
