//! Exemplars behind the buckets of a histogram (OpenMetrics 1.0).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use super::values::shown_bounds;
use asyncsteps_executor::observe::{Exemplar, FunctionFigures};

/// Adds the exemplars of functions to the lines of the buckets of a histogram with the label `function`.
///
/// The library that writes the lines can write only exemplars that it has collected itself, with a lock
/// for each request.
pub(super) fn with_exemplars(text: &str, name: &str, functions: &[FunctionFigures]) -> String {
    let exemplars: HashMap<String, &Exemplar> =
        functions.iter().flat_map(|function| of_function(name, function)).collect();
    let mut with = String::with_capacity(text.len() + exemplars.len() * 100);
    for line in text.split_inclusive('\n') {
        let (bucket, count) = line.rsplit_once(' ').unwrap_or((line, ""));
        match exemplars.get(bucket) {
            Some(exemplar) => add(&mut with, bucket, count.trim_end(), exemplar),
            None => with.push_str(line),
        }
    }
    with
}

/// The exemplars of a function, by the beginning of the line of their bucket.
fn of_function<'a>(
    name: &str,
    FunctionFigures { function, exemplars, .. }: &'a FunctionFigures,
) -> impl Iterator<Item = (String, &'a Exemplar)> {
    // of those in one bucket, the longest time counts
    exemplars.iter().map(move |exemplar| {
        let time = exemplar.time.as_secs_f64();
        let bound = shown_bounds().find(|bound| time <= *bound).unwrap_or(f64::INFINITY);
        (format!("{name}_bucket{{le=\"{}\",function=\"{function}\"}}", label(bound)), exemplar)
    })
}

/// A bound as the library writes it.
fn label(bound: f64) -> String {
    match bound.to_string() {
        _ if bound.is_infinite() => "+Inf".to_owned(),
        whole if !whole.contains('.') => format!("{whole}.0"),
        fraction => fraction,
    }
}

fn add(text: &mut String, bucket: &str, count: &str, exemplar: &Exemplar) {
    let at = exemplar.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let (trace, time) = (exemplar.trace.trace_id(), exemplar.time.as_secs_f64());
    // writing to a text does not fail
    let _ = writeln!(text, "{bucket} {count} # {{trace_id=\"{trace}\"}} {time:?} {at:.3}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use asyncsteps_actors::latency::Latency;
    use prometheus_client::registry::Registry;

    use super::super::{Snapshot, text};
    use super::*;
    use asyncsteps_executor::observe::Figures;

    #[test]
    fn each_bucket_can_have_an_exemplar() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = trace.parse().expect("a trace");
        let (latency, mut exemplars) = (Latency::new(), Vec::new());
        for bound in shown_bounds() {
            let time = Duration::try_from_secs_f64(bound).unwrap_or(Duration::from_secs(1000));
            latency.count(time);
            exemplars.push(Exemplar { trace, time, at: UNIX_EPOCH });
        }
        let function = FunctionFigures {
            function: "demo.shop:1.0:order".to_owned(),
            total: latency.distribution(),
            queued: latency.distribution(),
            errors: std::collections::BTreeMap::new(),
            exemplars,
        };
        let mut figures = Figures::default();
        figures.functions.push(function);
        let text = text(Snapshot { figures, ..Snapshot::default() }, &Registry::default());
        let with = text.lines().filter(|line| line.contains(" # {trace_id="));
        assert_eq!(with.count(), shown_bounds().count(), "{text}");
        let third = r#"{le="0.000033",function="demo.shop:1.0:order"} 3 # {trace_id="#;
        assert!(text.contains(third), "{text}");
    }
}
