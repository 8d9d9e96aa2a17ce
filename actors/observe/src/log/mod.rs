//! A log that never holds up the work it reports.

mod format;
mod json;
mod panic;
mod queue;
mod text;
mod value;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

pub use self::format::Format;

use self::json::JsonFields;
use self::queue::{LAST_LINES, Queue};
use self::text::TextFields;
use asyncsteps_executor::observe::LONGEST_VALUE;

/// Default of [`Log::buffer`], in bytes: some seconds of a busy server. A reader that falls behind
/// further is stuck or gone.
const BUFFER: usize = 1 << 20;

/// The variable that says the form of a log.
const FORMAT: &str = "LOG_FORMAT";

/// Sets up the log of a program in one line: [`log()`] with its defaults, which two variables of the
/// environment change. `RUST_LOG` says what is logged, one line per request unless it is set;
/// `RUST_LOG=asyncsteps=debug` adds the steps. `LOG_FORMAT=json` writes JSON instead of text.
///
/// ```
/// let _log = asyncsteps_observe::init()?;
/// tracing::info!("ready");
/// # Ok::<_, asyncsteps_observe::LogError>(())
/// ```
///
/// Keep the result until `main` ends.
///
/// # Errors
/// [`LogError`] if a variable is wrong, the process has a subscriber already, or the thread of the log
/// cannot be started.
pub fn init() -> Result<LogGuard, LogError> {
    log().init()
}

/// A log of the program on its standard error, with options; [`init`] is the one without.
///
/// ```
/// use asyncsteps_observe::Format;
///
/// let _log = asyncsteps_observe::log().format(Format::Json).filter("warn").init()?;
/// # Ok::<_, asyncsteps_observe::LogError>(())
/// ```
///
/// What it does beyond `tracing_subscriber::fmt`:
/// - A thread of its own writes the lines. A request never waits for the reader of the log, and
///   never fails because there is none: lines beyond the [`buffer`](Log::buffer) are dropped, and
///   counted in the log once lines can be written again.
/// - One record is one line. In text, control characters, line ends and direction marks within values
///   are escaped, so that a client cannot forge lines or colours; values beyond
///   [`longest_value`](Log::longest_value) are cut, also in JSON.
/// - Colours are for terminals only, and not if `NO_COLOR` is set.
/// - Spans are logged when they close, with the time they took.
/// - In JSON each line carries all spans around it, from the outermost to the innermost.
/// - Panics are logged in the same way and form. The hook of Rust would write to the standard error
///   itself, and wait for its reader.
///
/// It needs the feature `log`, which is off by default: programs with a subscriber of their own do
/// not compile it.
#[must_use = "nothing is logged before `init`"]
pub fn log() -> Log {
    Log { format: None, filter: None, buffer: BUFFER, longest_value: LONGEST_VALUE, output: None }
}

/// The default filter: h2 warns of mistakes of clients, and rmcp has four lines per request.
const FILTER: &str = "info,h2=error,rmcp=off";

/// The options of a log; made by [`log()`].
#[must_use = "nothing is logged before `init`"]
pub struct Log {
    format: Option<Format>,
    filter: Option<String>,
    buffer: usize,
    longest_value: usize,
    output: Option<Box<dyn Write + Send>>,
}

impl Log {
    /// The form of the lines. Unless set, the variable `LOG_FORMAT` says it, `text` or `json`, and
    /// without that it is [`Format::Text`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// The filter, in the syntax of [`EnvFilter`]. The default is the variable `RUST_LOG`, and without
    /// that `info,h2=error,rmcp=off`: one line per request, and none for each client that breaks the rules of
    /// HTTP/2.
    pub fn filter(mut self, directives: impl Into<String>) -> Self {
        self.filter = Some(directives.into());
        self
    }

    /// How many bytes of lines may wait to be written; 1 MiB unless set, some seconds of a busy
    /// server. Twice as much memory is used at the most. Lines beyond it are dropped and counted.
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// How many bytes of one value are logged; 2,048 unless set. A longer one ends with `…` and its
    /// length.
    pub fn longest_value(mut self, bytes: usize) -> Self {
        self.longest_value = bytes;
        self
    }

    /// Where the lines go instead of the standard error: without colours.
    ///
    /// `output` may block, and an error drops the lines that it met; both concern the thread of the
    /// log only.
    pub fn output(mut self, output: impl Write + Send + 'static) -> Self {
        self.output = Some(Box::new(output));
        self
    }

    /// Makes this the log of the whole process: of `tracing`, of the crate `log`, and of panics. Keep
    /// the result until `main` ends.
    ///
    /// # Errors
    /// [`LogError`] if the filter is wrong, the process has a subscriber already, or the thread
    /// cannot be started.
    pub fn init(self) -> Result<LogGuard, LogError> {
        let filter = self.env_filter()?;
        let format = self.chosen_format()?;
        let (layer, guard) = self.format(format).layer()?;
        Registry::default().with(filter).with(layer).try_init()?;
        panic::log_panics(format, Arc::clone(&guard.0));
        Ok(guard)
    }

    /// The log as one layer of a subscriber that the program composes, without a filter, and
    /// without what [`init`](Log::init) does to the process.
    ///
    /// # Errors
    /// [`LogError`] if the thread cannot be started, or the variable `LOG_FORMAT` is wrong.
    pub fn layer<S>(self) -> Result<(impl Layer<S> + Send + Sync, LogGuard), LogError>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let format = self.chosen_format()?;
        let Self { buffer, longest_value, output, .. } = self;
        let has_colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colours = output.is_none() && io::stderr().is_terminal() && has_colours;
        let output = output.unwrap_or_else(|| Box::new(io::stderr()));
        let queue = Queue::start(buffer, format, output).map_err(LogError::Thread)?;
        let layer = tracing_subscriber::fmt::layer()
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(Arc::clone(&queue))
            // it would report errors by writing to the standard error, here and now
            .log_internal_errors(false)
            .with_ansi(colours);
        let layer: Box<dyn Layer<S> + Send + Sync> = match format {
            Format::Text => Box::new(layer.fmt_fields(TextFields { longest_value })),
            Format::Json => {
                let fields = JsonFields { longest_value };
                Box::new(layer.fmt_fields(fields).event_format(json::JsonLines))
            }
        };
        Ok((layer, LogGuard(queue)))
    }

    fn env_filter(&self) -> Result<EnvFilter, LogError> {
        let directives = match &self.filter {
            Some(directives) => directives.clone(),
            None => variable(EnvFilter::DEFAULT_ENV)?.unwrap_or_else(|| FILTER.to_owned()),
        };
        Ok(EnvFilter::builder().parse(directives)?)
    }

    fn chosen_format(&self) -> Result<Format, LogError> {
        match (self.format, variable(FORMAT)?) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::default()),
            (None, Some(name)) => Format::from_name(&name).ok_or(LogError::Format(name)),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("format", &self.format)
            .field("filter", &self.filter)
            .field("buffer", &self.buffer)
            .field("longest_value", &self.longest_value)
            .finish_non_exhaustive()
    }
}

/// Keeps a log going. Dropping it writes the lines that wait, for a second at the most, and ends the
/// log. `std::process::exit` drops nothing, so it may cost the last lines.
#[derive(Debug)]
#[must_use = "the log ends when this is dropped"]
pub struct LogGuard(Arc<Queue>);

impl LogGuard {
    /// How many lines were dropped so far: the buffer was full, or they could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.close(LAST_LINES);
    }
}

/// Why there is no log.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter is not in the syntax of [`EnvFilter`].
    #[error("the filter of the log, from RUST_LOG unless it was set, is wrong")]
    Filter(#[from] ParseError),
    /// A variable of the environment is not text.
    #[error("{0} is not text")]
    Text(&'static str),
    /// The variable that says the form of the log names none.
    #[error("LOG_FORMAT is {0:?}, and not text or json")]
    Format(String),
    /// The process has a subscriber or a logger already.
    #[error("the process has a log already")]
    Taken(#[from] TryInitError),
    /// The thread that writes the lines cannot be started.
    #[error("cannot start the thread of the log")]
    Thread(#[source] io::Error),
}

asyncsteps_futoin::debug_as_report!(LogError);

/// A variable of the environment, if it is set.
fn variable(name: &'static str) -> Result<Option<String>, LogError> {
    env::var_os(name).map(OsString::into_string).transpose().map_err(|_| LogError::Text(name))
}
