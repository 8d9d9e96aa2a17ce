//! Traces of requests, sent to a collector over OTLP.

#[cfg(feature = "otel")]
use anyhow::Context as _;
use asyncsteps::Builder;

/// Sends the last traces when it is dropped.
#[cfg(feature = "otel")]
pub(crate) type Traces = asyncsteps::observe::OtlpGuard;

/// There are none in a program that is built without OpenTelemetry.
#[cfg(not(feature = "otel"))]
pub(crate) enum Traces {}

/// The same, which sends sampled requests to this collector.
#[cfg(feature = "otel")]
pub(crate) fn sent_to(collector: &str, builder: Builder) -> anyhow::Result<(Builder, Traces)> {
    let (exporter, traces) = asyncsteps::observe::otlp()
        .endpoint(collector)
        .service_name("executor-demo")
        .start()
        .context("cannot send traces")?;
    Ok((builder.export(exporter), traces))
}

#[cfg(not(feature = "otel"))]
pub(crate) fn sent_to(collector: &str, _: Builder) -> anyhow::Result<(Builder, Traces)> {
    anyhow::bail!(
        "this program is built without OpenTelemetry: build it with `--features otel`, or leave out --otlp and \
         OTEL_EXPORTER_OTLP_ENDPOINT, which is {collector}"
    )
}
