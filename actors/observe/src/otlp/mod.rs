//! Sampled requests as spans of OpenTelemetry, sent to a collector over OTLP.

mod queue;
mod spans;
mod tls;

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;

use self::queue::{LAST_REQUESTS, Queue};
use asyncsteps_executor::observe::{ExportFigures, Exporter, RequestRecord};

/// Default of [`Otlp::queue`]: at 12 KiB each, 24 MiB.
const QUEUE: usize = 2_048;

/// The collector on the machine of the service, as the specification of OTLP has it.
const ENDPOINT: &str = "http://localhost:4318";

/// How long a message to the collector may take, as the specification has it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where spans go below the address of a collector.
const TRACES: &str = "/v1/traces";

/// Sends the requests that are [sampled](asyncsteps_executor::observe::Sampling), with their steps, to a collector of
/// OpenTelemetry, over OTLP with HTTP and protobuf.
///
/// ```no_run
/// use asyncsteps_executor::Executor;
/// use asyncsteps_executor::observe::Sampling;
/// use asyncsteps_observe::otlp;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (exporter, _guard) = otlp().service_name("shop").start()?;
/// let executor =
///     Executor::builder().sample(Sampling::share(0.01)).export(exporter).build()?;
/// # Ok(()) }
/// ```
///
/// A request becomes a span with the name of its function, below the span that its caller has named in `traceparent`;
/// each step becomes a span below that. A thread of its own makes them of the records of the request, after its end: a
/// request waits for nothing, and one that is not sampled costs nothing. Requests that do not fit into the
/// [`queue`](Otlp::queue), or cannot be sent, are dropped and counted
/// ([`Executor::export_figures`](asyncsteps_executor::Executor::export_figures), and `asyncsteps_traces_dropped_total` of the
/// metrics), and the log says so.
///
/// | attribute | of | what |
/// |---|---|---|
/// | `rpc.system` | request | `futoin` |
/// | `rpc.service`, `rpc.method` | request | `demo.shop:1.0`, `order` |
/// | `futoin.rid` | request | the caller's number of the request |
/// | `futoin.channel` | request | `HTTP`, `WS` or `LOCAL` |
/// | `asyncsteps.queued` | request | seconds in the queue of the budget, if there were any |
/// | `asyncsteps.lost_events` | request | events of steps that a long request had no room for |
/// | `error.type` | both | the code of the error, `cancelled` or `disconnected` |
/// | `code.file.path`, `code.line.number` | step | where it was added |
/// | `asyncsteps.attempt` | step | which attempt, if it was not the first |
/// | `asyncsteps.branch` | step | the parallel branch, if it was not the root |
/// | `asyncsteps.undo` | step | true if the step undid the request |
///
/// It needs the feature `otel`, which is off by default.
#[must_use = "nothing is exported before `start`"]
pub fn otlp() -> Otlp {
    Otlp { endpoint: None, service_name: None, queue: QUEUE }
}

/// The options of an export; made by [`otlp()`].
#[derive(Clone)]
#[must_use = "nothing is exported before `start`"]
pub struct Otlp {
    endpoint: Option<String>,
    service_name: Option<String>,
    queue: usize,
}

impl Otlp {
    /// The address of the collector, to which `/v1/traces` is added. Unless set, the variable
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` says it, which is used as it is, or `OTEL_EXPORTER_OTLP_ENDPOINT`; without
    /// them it is `http://localhost:4318`. At `https://` the collector shows a certificate that the system trusts, or one of
    /// those in the file of PEM that `OTEL_EXPORTER_OTLP_CERTIFICATE` names.
    ///
    /// Further variables of the specification that are respected: `OTEL_EXPORTER_OTLP_HEADERS`, such as
    /// `authorization=Bearer%20..`, `OTEL_EXPORTER_OTLP_TIMEOUT` (10 s unless set) and `OTEL_RESOURCE_ATTRIBUTES`. Those of an
    /// exporter have a form for traces too, such as `OTEL_EXPORTER_OTLP_TRACES_HEADERS`, which takes precedence.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// The name of the service, which distinguishes its spans from those of others. The variable
    /// `OTEL_SERVICE_NAME` takes precedence.
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.service_name = Some(name.into());
        self
    }

    /// How many requests may wait to be sent, about 12 KiB each; 2,048 unless set.
    pub fn queue(mut self, requests: usize) -> Self {
        self.queue = requests;
        self
    }

    /// Starts the thread that sends. The exporter is for
    /// [`Builder::export`](asyncsteps_executor::Builder::export); keep the guard until the service has stopped.
    ///
    /// # Errors
    /// [`OtlpError`] if the address is none of HTTP, a variable of the environment is wrong, or the thread
    /// cannot be started.
    pub fn start(self) -> Result<(OtlpExporter, OtlpGuard), OtlpError> {
        let endpoint = self.url()?;
        // the client and its timers belong to the runtime of the thread
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OtlpError::Thread)?;
        let entered = runtime.enter();
        let exporter = SpanExporter::builder().with_http();
        let exporter = match endpoint.starts_with("https:") {
            true => {
                let certificate = of_traces("CERTIFICATE")?;
                let timeout = of_traces("TIMEOUT")?.and_then(|millis| millis.parse().ok());
                let timeout = timeout.map_or(TIMEOUT, Duration::from_millis);
                exporter.with_http_client(tls::client(certificate.as_deref(), timeout)?)
            }
            false => exporter,
        };
        let mut exporter = exporter.with_endpoint(endpoint).build()?;
        exporter.set_resource(&self.resource());
        drop(entered);
        let queue = Queue::start(self.queue, runtime, exporter).map_err(OtlpError::Thread)?;
        Ok((OtlpExporter(Arc::clone(&queue)), OtlpGuard(queue)))
    }

    /// Where spans are posted.
    fn url(&self) -> Result<String, OtlpError> {
        let below = |base: &str| format!("{}{TRACES}", base.trim_end_matches('/'));
        let url = match &self.endpoint {
            Some(base) => below(base),
            None => match variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")? {
                Some(url) => url,
                None => {
                    let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
                    below(base.as_deref().unwrap_or(ENDPOINT))
                }
            },
        };
        match url.parse::<Uri>().is_ok_and(|uri| is_collector(&uri)) {
            true => Ok(url),
            false => Err(OtlpError::Endpoint(without_user(&url).into_owned())),
        }
    }

    fn resource(&self) -> Resource {
        let resource = Resource::builder();
        match &self.service_name {
            Some(name) if env::var_os("OTEL_SERVICE_NAME").is_none() => {
                resource.with_service_name(name.clone()).build()
            }
            _ => resource.build(),
        }
    }
}

/// Without the user and the password of the address.
impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, service_name, queue } = self;
        f.debug_struct("Otlp")
            .field("endpoint", &endpoint.as_deref().map(without_user))
            .field("service_name", service_name)
            .field("queue", queue)
            .finish()
    }
}

/// Takes requests for a collector of OpenTelemetry; made by [`Otlp::start`]. Cloning shares, so that
/// several executors have one.
#[derive(Clone)]
pub struct OtlpExporter(Arc<Queue>);

impl Exporter for OtlpExporter {
    fn export(&self, request: Arc<RequestRecord>) {
        self.0.push(request);
    }

    fn figures(&self) -> ExportFigures {
        self.0.figures()
    }
}

impl fmt::Debug for OtlpExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpExporter").field("dropped", &self.0.figures().dropped()).finish()
    }
}

/// Keeps an export going. Dropping it sends the requests that wait, for three seconds at the most, and ends
/// the export.
#[must_use = "the export ends when this is dropped"]
pub struct OtlpGuard(Arc<Queue>);

impl OtlpGuard {
    /// How many requests were dropped so far: the queue was full, or they could not be sent.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.figures().dropped()
    }
}

impl Drop for OtlpGuard {
    fn drop(&mut self) {
        self.0.close(LAST_REQUESTS);
    }
}

impl fmt::Debug for OtlpGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpGuard").field("dropped", &self.dropped()).finish()
    }
}

/// Why nothing is exported.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address of the collector cannot be used; here it is without its user and password.
    #[error("the address of the collector is {0:?}, and not http:// or https://HOST:PORT")]
    Endpoint(String),
    /// A variable of the environment is not text.
    #[error("{0} is not text")]
    Text(String),
    /// There is no certificate to trust.
    #[error(
        "no certificate of the collector can be trusted, see OTEL_EXPORTER_OTLP_CERTIFICATE: {0}"
    )]
    Certificates(String),
    /// An option of OpenTelemetry in the environment is wrong.
    #[error("the export cannot be set up")]
    Options(#[from] ExporterBuildError),
    /// The thread that sends cannot be started.
    #[error("cannot start the thread of the export")]
    Thread(#[source] io::Error),
}

asyncsteps_futoin::debug_as_report!(OtlpError);

/// Whether it is `http://HOST` or `http://HOST:PORT`, or the same with `https`, with any path.
fn is_collector(uri: &Uri) -> bool {
    let Some((authority, host)) = uri.authority().zip(uri.host()) else { return false };
    // a port that is none is left in the text
    let has_port = !authority.as_str().ends_with(host);
    matches!(uri.scheme_str(), Some("http" | "https"))
        && !host.is_empty()
        && (!has_port || uri.port_u16().is_some())
}

/// A URL as it may be shown: `***` replaces its user and password. All before the last `@` counts as such: in a URL
/// that is wrong, a password may have any character.
fn without_user(url: &str) -> Cow<'_, str> {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    match url.rfind('@') {
        Some(at) if at >= begin => format!("{}***{}", &url[..begin], &url[at..]).into(),
        Some(at) => format!("***{}", &url[at..]).into(),
        None => url.into(),
    }
}

/// A variable of the environment, if it is set and not empty.
fn variable(name: &str) -> Result<Option<String>, OtlpError> {
    let value = env::var_os(name).filter(|value| !value.is_empty());
    value.map(OsString::into_string).transpose().map_err(|_| OtlpError::Text(name.to_owned()))
}

/// An option of an exporter in the environment: that of traces, or that of all.
fn of_traces(option: &str) -> Result<Option<String>, OtlpError> {
    match variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{option}"))? {
        Some(value) => Ok(Some(value)),
        None => variable(&format!("OTEL_EXPORTER_OTLP_{option}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_collector_gets_the_path_of_traces() {
        for (base, url) in [
            ("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/traces")),
            ("http://collector/otlp/", Some("http://collector/otlp/v1/traces")),
            ("https://collector:4318", Some("https://collector:4318/v1/traces")),
            ("ftp://collector:4318", None),
            ("collector:4318", None),
            ("http://collector:65535", Some("http://collector:65535/v1/traces")),
            ("http://[::1]:4318", Some("http://[::1]:4318/v1/traces")),
            ("http://[::1]", Some("http://[::1]/v1/traces")),
            ("http://collector:65536", None),
            ("http://[::1]:99999", None),
            ("http://me:secret@collector:99999", None),
            ("", None),
        ] {
            assert_eq!(otlp().endpoint(base).url().ok().as_deref(), url, "{base}");
        }
    }

    #[test]
    fn the_user_of_an_address_is_never_shown() {
        for (base, shown) in [
            ("ftp://user:secret@h:1", "ftp://***@h:1/v1/traces"),
            ("http://user:secret@h:99999", "http://***@h:99999/v1/traces"),
            ("http://user:sec/secret@h", "http://***@h/v1/traces"),
            ("ftp://user:s@c?secret@h:1", "ftp://***@h:1/v1/traces"),
            ("user:secret@h:1", "***@h:1/v1/traces"),
            ("user:secret@http://h", "***@http://h/v1/traces"),
        ] {
            let options = otlp().endpoint(base);
            let error = options.clone().start().map(|_| ()).expect_err(base);
            let told = error.to_string();
            assert!(told.contains(&format!("{shown:?}")), "{base}: {told}");
            for told in [told, format!("{error:?}"), format!("{options:?}")] {
                assert!(!told.contains("secret"), "{base}: {told}");
            }
        }
    }
}
