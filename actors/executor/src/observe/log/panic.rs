//! Panics in the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::Write as _;
use std::panic::{self, PanicHookInfo};
use std::thread;

use super::format::Format;
use super::notice::Notice;
use super::queue::{LAST_LINES, Writer};
use crate::observe::cut::{Cut, LONGEST_VALUE};

/// Logs each panic of the process as a line, in place of the hook that was set before.
///
/// The line does not pass through `tracing`: a panic may come out of a value that is just being
/// written to the log, when the fields of its span are locked.
pub(super) fn log_panics(format: Format, log: Writer) {
    panic::set_hook(Box::new(move |panic| {
        let line = describe(format, panic);
        // the log takes whatever it receives
        let _ = log.clone().write_all(line.as_bytes());
        if cfg!(panic = "abort") {
            log.0.flush(LAST_LINES);
        }
    }));
}

fn describe(format: Format, panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = Cut::text(text.unwrap_or("a value that is no text"), LONGEST_VALUE);
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    // taken if `RUST_BACKTRACE` asks for it
    let backtrace = Backtrace::capture();
    let mut fields: Vec<(&str, &dyn Display)> =
        vec![("panic", &message), ("location", &location), ("thread", &thread)];
    let has_backtrace = backtrace.status() == BacktraceStatus::Captured;
    if has_backtrace && format == Format::Json {
        fields.push(("backtrace", &backtrace));
    }
    let mut line = format.line(&Notice {
        level: "ERROR",
        target: "panic",
        message: "a thread panicked",
        fields: &fields,
    });
    if has_backtrace && format == Format::Text {
        // for people, on lines of its own
        line.push_str(&backtrace.to_string());
    }
    line
}
