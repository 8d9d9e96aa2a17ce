//! Single metrics: counters, gauges and histograms, with and without labels.

use std::fmt;

use asyncsteps_actors::latency::Distribution;
use asyncsteps_executor::observe::{HostMetric, MetricKind};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// This number of buckets of a distribution is shown as one: four in each decade.
const TOGETHER: usize = 3;

/// No labels, for exemplars that there are none of.
type NoLabels = [(&'static str, &'static str); 0];

/// Name and help of a metric.
pub(super) type Name = (&'static str, &'static str);

pub(super) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Name,
    value: u64,
) -> fmt::Result {
    count(encoder.encode_descriptor(name, help, None, MetricType::Counter)?, value)
}

pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Name,
    unit: Option<&Unit>,
    value: usize,
) -> fmt::Result {
    measure(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?, value as f64)
}

/// A counter for each set of labels.
pub(super) fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Name,
    values: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        count(metric.encode_family(&labels)?, value)?;
    }
    Ok(())
}

/// A gauge for each set of labels.
pub(super) fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Name,
    unit: Option<&Unit>,
    values: impl IntoIterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (labels, value) in values {
        measure(metric.encode_family(&labels)?, value)?;
    }
    Ok(())
}

/// A metric of a host of requests.
pub(super) fn of_host(
    encoder: &mut DescriptorEncoder<'_>,
    HostMetric { name, help, kind, samples }: &HostMetric,
) -> fmt::Result {
    let (unit, form) = match kind {
        MetricKind::Gauge => (None, MetricType::Gauge),
        MetricKind::Seconds => (Some(&Unit::Seconds), MetricType::Gauge),
        MetricKind::Bytes => (Some(&Unit::Bytes), MetricType::Gauge),
        MetricKind::Total => (None, MetricType::Counter),
    };
    let mut metric = encoder.encode_descriptor(name, help, unit, form)?;
    let one = |mut metric: MetricEncoder<'_>, value: &f64| match kind {
        MetricKind::Total => metric.encode_counter::<NoLabels, f64, u64>(value, None),
        MetricKind::Gauge | MetricKind::Seconds | MetricKind::Bytes => metric.encode_gauge(value),
    };
    match &samples[..] {
        [(labels, value)] if labels.is_empty() => one(metric, value),
        samples => {
            samples.iter().try_for_each(|(labels, value)| one(metric.encode_family(labels)?, value))
        }
    }
}

/// A distribution of times for each set of labels.
pub(super) fn histograms<'a, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Name,
    values: impl IntoIterator<Item = (L, &'a Distribution)>,
) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, distribution) in values {
        histogram(metric.encode_family(&labels)?, distribution)?;
    }
    Ok(())
}

/// The upper bounds of the buckets that are shown, in seconds. The first bound of a distribution is one by
/// itself, so that the others end with whole decades.
pub(super) fn shown_bounds() -> impl Iterator<Item = f64> {
    let bounds = Distribution::bounds().map(|bound| bound.as_secs_f64());
    bounds.step_by(TOGETHER).chain([f64::INFINITY])
}

fn histogram(mut metric: MetricEncoder<'_>, distribution: &Distribution) -> fmt::Result {
    let counts = &distribution.counts;
    let (first, others) = counts.split_at(counts.len().min(1));
    let together = others.chunks(TOGETHER).map(|together| together.iter().sum());
    let counts = first.iter().copied().chain(together).chain(std::iter::repeat(0));
    let shown: Vec<(f64, u64)> = shown_bounds().zip(counts).collect();
    let (sum, count) = (distribution.sum.as_secs_f64(), distribution.count());
    metric.encode_histogram::<NoLabels>(sum, count, &shown, None)
}

fn count(mut metric: MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabels, _, f64>(&value, None)
}

fn measure(mut metric: MetricEncoder<'_>, value: f64) -> fmt::Result {
    metric.encode_gauge(&value)
}
