//! Figures as text.

mod exemplars;
mod plain;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use asyncsteps_actors::budget::Usage;
use asyncsteps_actors::stuck::StuckFigures;
use asyncsteps_actors::sync::Load;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::{Registry, Unit};

use crate::locks::WatchedLock;
use asyncsteps_executor::RefusalReason;
use asyncsteps_executor::health::ConnectionState;
use asyncsteps_executor::observe::{
    ExportFigures, Figures, FunctionFigures, HostMetric, TrafficFigures,
};

use exemplars::with_exemplars;
pub(super) use plain::plain;
use values::{Name, counter, counters, gauge, gauges, histograms, of_host};

/// The values that are shown.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) figures: Figures,
    pub(super) refusals: BTreeMap<RefusalReason, u64>,
    pub(super) usage: Usage,
    pub(super) unanswerable: u64,
    pub(super) is_ready: bool,
    pub(super) delays: Vec<Duration>,
    pub(super) waits: BTreeMap<&'static str, u64>,
    pub(super) locks: Vec<WatchedLock>,
    pub(super) deadlocks: u64,
    pub(super) dependencies: Vec<ConnectionState>,
    pub(super) stuck: StuckFigures,
    pub(super) traffic: TrafficFigures,
    pub(super) hosts: Vec<HostMetric>,
    pub(super) exports: ExportFigures,
}

/// The histogram that has exemplars.
const DURATION: &str = "asyncsteps_request_duration";

/// The usual causes of waits, which are shown even while no branch waits for them.
const CAUSES: [&str; 8] =
    ["end", "external", "future", "mutex", "pause", "throttle", "turn", "undo"];

/// The text of a snapshot and of what a program has registered.
pub(super) fn text(snapshot: Snapshot, registered: &Registry) -> String {
    let functions = snapshot.figures.functions.clone();
    let mut own = Registry::default();
    own.register_collector(Box::new(snapshot));
    let mut text = String::new();
    let written = encode_registry(&mut text, &own);
    text = with_exemplars(&text, &format!("{DURATION}_seconds"), &functions);
    let written = written
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
        self.locks(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.dependencies(&mut encoder)?;
        self.traces(&mut encoder)?;
        self.hosts.iter().try_for_each(|metric| of_host(&mut encoder, metric))
    }
}

impl Snapshot {
    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Figures { functions, refused, .. } = &self.figures;
        let label = |function: &'_ FunctionFigures| [("function", function.function.clone())];
        histograms(
            encoder,
            (DURATION, "Times of requests from their arrival to their reply"),
            functions.iter().map(|function| (label(function), &function.total)),
        )?;
        histograms(
            encoder,
            ("asyncsteps_request_queue", "Times of requests in the queue of the budget"),
            functions.iter().map(|function| (label(function), &function.queued)),
        )?;
        let errors = functions.iter().flat_map(|FunctionFigures { function, errors, .. }| {
            errors.iter().map(move |(code, count)| {
                ([("function", function.as_str()), ("code", code.as_str())], *count)
            })
        });
        counters(
            encoder,
            ("asyncsteps_request_errors", "Requests that were answered with an error"),
            errors,
        )?;
        counters(
            encoder,
            ("asyncsteps_requests_refused", "Requests that did not get to a function"),
            refused.iter().map(|(code, count)| ([("code", code.as_str())], *count)),
        )?;
        counters(
            encoder,
            ("asyncsteps_refusals", "Requests that were refused before their flow began"),
            self.refusals.iter().map(|(reason, count)| ([("reason", reason.as_str())], *count)),
        )
    }

    fn admission(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Usage { running, queued, memory, admitted, refused, withdrawn, .. } = self.usage;
        let gauges: [(Name, _, _); 4] = [
            (("asyncsteps_requests_running", "Requests that have a permit"), None, running),
            (("asyncsteps_requests_queued", "Requests that wait for a permit"), None, queued),
            (
                ("asyncsteps_admission_memory", "Memory that the budget counts for requests"),
                Some(Unit::Bytes),
                memory,
            ),
            (
                ("asyncsteps_ready", "Whether the executor should get requests: 1 or 0"),
                None,
                self.is_ready.into(),
            ),
        ];
        for (name, unit, value) in gauges {
            gauge(encoder, name, unit.as_ref(), value)?;
        }
        let counts: [(Name, u64); 4] = [
            (("asyncsteps_requests_admitted", "Requests that got a permit"), admitted),
            (("asyncsteps_requests_rejected", "Requests that got no permit"), refused),
            (("asyncsteps_requests_withdrawn", "Requests that left while they waited"), withdrawn),
            (
                ("asyncsteps_messages_unanswerable", "Messages that could not be answered"),
                self.unanswerable,
            ),
        ];
        counts.into_iter().try_for_each(|(name, value)| counter(encoder, name, value))
    }

    fn arbiters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let delays = self.delays.iter().enumerate();
        gauges(
            encoder,
            ("asyncsteps_arbiter_delay", "How long arbiters took to answer a message"),
            Some(&Unit::Seconds),
            delays.map(|(at, delay)| ([("arbiter", at.to_string())], delay.as_secs_f64())),
        )?;
        let StuckFigures { now, total, .. } = self.stuck;
        gauge(encoder, ("asyncsteps_arbiters_blocked", "Arbiters that a step blocks"), None, now)?;
        counter(encoder, ("asyncsteps_arbiter_blocks", "Steps that blocked their arbiter"), total)?;
        let mut waits: BTreeMap<&str, u64> = CAUSES.into_iter().map(|cause| (cause, 0)).collect();
        waits.extend(&self.waits);
        gauges(
            encoder,
            ("asyncsteps_waits", "Branches of requests in flight by what they wait for"),
            None,
            waits.into_iter().map(|(cause, count)| ([("cause", cause)], count as f64)),
        )
    }

    fn locks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let label = |lock: &WatchedLock| [("kind", lock.kind), ("lock", lock.report.name)];
        let loads: Vec<_> =
            self.locks.iter().map(|lock| (label(lock), lock.report.load())).collect();
        let mut show = |name: Name, of: fn(&Load) -> usize| {
            gauges(
                encoder,
                name,
                None,
                loads.iter().map(|(labels, load)| (*labels, of(load) as f64)),
            )
        };
        show(("asyncsteps_lock_keys", "Keys in use"), |load| load.keys)?;
        show(("asyncsteps_lock_holders", "Holders inside of sections"), |load| load.holders)?;
        show(("asyncsteps_lock_queued", "Waiters"), |load| load.queued)?;
        let waits = || self.locks.iter().map(|lock| (label(lock), &lock.report.waits));
        histograms(
            encoder,
            ("asyncsteps_lock_wait", "Times of waits for a lock that ended with the lock"),
            waits().map(|(labels, waits)| (labels, &waits.waited)),
        )?;
        counters(
            encoder,
            ("asyncsteps_lock_given_up", "Waits for a lock that ended without the lock"),
            waits().map(|(labels, waits)| (labels, waits.given_up)),
        )?;
        counters(
            encoder,
            ("asyncsteps_lock_rejected", "Waits that were refused because the queue was full"),
            waits().map(|(labels, waits)| (labels, waits.rejected)),
        )?;
        counter(encoder, ("asyncsteps_deadlocks", "Deadlocks found in the process"), self.deadlocks)
    }

    fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let TrafficFigures { connections, over_limit, failed, cut, received, sent, .. } =
            &self.traffic;
        let label = |word| [("protocol", word)];
        gauges(
            encoder,
            ("asyncsteps_connections", "Open connections by what is spoken"),
            None,
            connections.iter().map(|it| (label(it.protocol.as_str()), it.open as f64)),
        )?;
        counters(
            encoder,
            ("asyncsteps_connections_accepted", "Connections on which a protocol began"),
            connections.iter().map(|it| (label(it.protocol.as_str()), it.accepted)),
        )?;
        counters(
            encoder,
            ("asyncsteps_connections_refused", "Connections that were not made"),
            [("limit", *over_limit), ("failed", *failed)]
                .map(|(reason, count)| ([("reason", reason)], count)),
        )?;
        let cut_name = ("asyncsteps_connections_cut", "Connections cut within an answer");
        counter(encoder, cut_name, *cut)?;
        let received_name = ("asyncsteps_received_bytes", "Bytes that were read from connections");
        counter(encoder, received_name, *received)?;
        counter(encoder, ("asyncsteps_sent_bytes", "Bytes that were written to connections"), *sent)
    }

    fn dependencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let label = |state: &ConnectionState| [("connection", state.name)];
        let states = || self.dependencies.iter();
        gauges(
            encoder,
            ("asyncsteps_dependency_up", "Whether a connection is there: 1 or 0"),
            None,
            states().map(|it| (label(it), f64::from(u8::from(it.fault.is_none())))),
        )?;
        counters(
            encoder,
            ("asyncsteps_dependency_losses", "How often a connection was lost"),
            states().map(|it| (label(it), it.losses)),
        )?;
        gauges(
            encoder,
            ("asyncsteps_dependency_silence", "Since when the other end was not heard"),
            Some(&Unit::Seconds),
            states().map(|it| (label(it), it.silence.as_secs_f64())),
        )
    }

    fn traces(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let ExportFigures { exported, queue_full, failed } = self.exports;
        let name = ("asyncsteps_traces_exported", "Sampled requests that were handed over");
        counter(encoder, name, exported)?;
        counters(
            encoder,
            ("asyncsteps_traces_dropped", "Sampled requests that were not handed over"),
            [("queue_full", queue_full), ("failed", failed)]
                .map(|(reason, count)| ([("reason", reason)], count)),
        )
    }
}
