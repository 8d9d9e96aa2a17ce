//! Figures as text.

use std::fmt;
use std::time::Duration;

use asyncsteps_actors::budget::Usage;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::observe::{Distribution, Figures, FunctionFigures, WatchedLock};

/// What is shown.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) figures: Figures,
    pub(super) usage: Usage,
    pub(super) unanswerable: u64,
    pub(super) delays: Vec<Duration>,
    pub(super) locks: Vec<WatchedLock>,
}

/// Every so many buckets of a distribution are shown as one: four in each decade.
const TOGETHER: usize = 3;

/// No labels, for exemplars that there are none of.
type NoLabels = [(&'static str, &'static str); 0];

/// The text of a snapshot and of what a program has registered.
pub(super) fn text(snapshot: Snapshot, registered: &Registry) -> String {
    let mut own = Registry::default();
    own.register_collector(Box::new(snapshot));
    let mut text = String::new();
    let written = encode_registry(&mut text, &own)
        .and_then(|()| encode_registry(&mut text, registered))
        .and_then(|()| encode_eof(&mut text));
    // a metric of the program may fail to write itself
    if written.is_err() {
        tracing::error!("a metric cannot be written");
    }
    text
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.requests(&mut encoder)?;
        self.admission(&mut encoder)?;
        self.arbiters(&mut encoder)?;
        self.locks(&mut encoder)
    }
}

impl Snapshot {
    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Figures { functions, refused, .. } = &self.figures;
        let (name, help) =
            ("asyncsteps_request_duration", "Times of requests from their arrival to their reply");
        histograms(encoder, name, help, functions, |function| &function.total)?;
        let (name, help) =
            ("asyncsteps_request_queue", "Times of requests in the queue of the budget");
        histograms(encoder, name, help, functions, |function| &function.queued)?;
        let (name, help) =
            ("asyncsteps_request_errors", "Requests that were answered with an error");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for function in functions {
            for (code, count) in &function.errors {
                let labels = [("function", &*function.function), ("code", code)];
                counter(metric.encode_family(&labels)?, *count)?;
            }
        }
        let (name, help) =
            ("asyncsteps_requests_refused", "Requests that did not get to a function");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (code, count) in refused {
            counter(metric.encode_family(&[("code", &**code)])?, *count)?;
        }
        Ok(())
    }

    fn admission(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Usage { running, queued, memory, admitted, refused, .. } = self.usage;
        for (name, help, unit, value) in [
            ("asyncsteps_requests_running", "Requests that have a permit", None, running),
            ("asyncsteps_requests_queued", "Requests that wait for a permit", None, queued),
            (
                "asyncsteps_admission_memory",
                "Memory that the budget counts for requests",
                Some(Unit::Bytes),
                memory,
            ),
        ] {
            gauge(encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?, value)?;
        }
        for (name, help, value) in [
            ("asyncsteps_requests_admitted", "Requests that got a permit", admitted),
            ("asyncsteps_requests_rejected", "Requests that got no permit", refused),
            (
                "asyncsteps_messages_unanswerable",
                "Messages that could not be answered",
                self.unanswerable,
            ),
        ] {
            counter(encoder.encode_descriptor(name, help, None, MetricType::Counter)?, value)?;
        }
        Ok(())
    }

    fn arbiters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) =
            ("asyncsteps_arbiter_delay", "How long arbiters took to answer a message");
        let mut metric =
            encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (number, delay) in self.delays.iter().enumerate() {
            let labels = [("arbiter", number.to_string())];
            metric.encode_family(&labels)?.encode_gauge(&delay.as_secs_f64())?;
        }
        Ok(())
    }

    fn locks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let loads = || self.locks.iter().map(|lock| (lock, lock.report.load()));
        let shown: [(_, _, fn(_) -> usize); 3] = [
            ("asyncsteps_lock_keys", "Keys in use", |load: asyncsteps_actors::sync::Load| {
                load.keys
            }),
            ("asyncsteps_lock_holders", "Holders inside of sections", |load| load.holders),
            ("asyncsteps_lock_queued", "Waiters", |load| load.queued),
        ];
        for (name, help, value) in shown {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (lock, load) in loads() {
                let labels = [("kind", lock.kind), ("lock", lock.report.name)];
                gauge(metric.encode_family(&labels)?, value(load))?;
            }
        }
        Ok(())
    }
}

/// Distributions of times, one for each function.
fn histograms(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    functions: &[FunctionFigures],
    times: impl Fn(&FunctionFigures) -> &Distribution,
) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for function in functions {
        let labels = [("function", &*function.function)];
        histogram(metric.encode_family(&labels)?, times(function))?;
    }
    Ok(())
}

fn histogram(mut metric: MetricEncoder<'_>, distribution: &Distribution) -> fmt::Result {
    let bounds = Distribution::bounds().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(distribution.counts.iter().copied()).collect();
    // the first bound is shown by itself, so that the others end with whole decades
    let (first, others) = buckets.split_at(1);
    let mut shown = first.to_vec();
    for together in others.chunks(TOGETHER) {
        let count = together.iter().map(|(_, count)| count).sum();
        shown.extend(together.last().map(|(bound, _)| (*bound, count)));
    }
    let count = distribution.count();
    metric.encode_histogram::<NoLabels>(distribution.sum.as_secs_f64(), count, &shown, None)
}

fn counter(mut metric: MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabels, _, f64>(&value, None)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of things, far below 2^53")]
fn gauge(mut metric: MetricEncoder<'_>, value: usize) -> fmt::Result {
    metric.encode_gauge(&(value as f64))
}
