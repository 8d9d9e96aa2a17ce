//! Panics in the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::thread;

use super::format::Format;
use super::queue::{LAST_LINES, Queue};
use asyncsteps_executor::observe::{Cut, LONGEST_VALUE};

/// Logs each panic of the process as a line, in place of the hook that was set before.
///
/// The line does not pass through `tracing`: a panic may come out of a value that is just being
/// written to the log, when the fields of its span are locked.
pub(super) fn log_panics(format: Format, queue: Arc<Queue>) {
    panic::set_hook(Box::new(move |panic| {
        queue.push(describe(format, panic).as_bytes());
        if cfg!(panic = "abort") {
            queue.flush(LAST_LINES);
        }
    }));
}

fn describe(format: Format, panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let thread = thread::current();
    let mut fields = vec![
        ("panic", Cut::text(text.unwrap_or("a value that is no text"), LONGEST_VALUE)),
        ("location", panic.location().map(ToString::to_string).unwrap_or_default()),
        ("thread", thread.name().unwrap_or("unnamed").to_owned()),
    ];
    // taken if `RUST_BACKTRACE` asks for it
    let backtrace = Backtrace::capture();
    let has_backtrace = backtrace.status() == BacktraceStatus::Captured;
    if has_backtrace && format == Format::Json {
        fields.push(("backtrace", backtrace.to_string()));
    }
    let mut line = format.line("ERROR", "panic", "a thread panicked", &fields);
    if has_backtrace && format == Format::Text {
        // for people, on lines of its own
        line.push_str(&backtrace.to_string());
    }
    line
}
