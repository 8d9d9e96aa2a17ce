//! The promise: every flow and each of its steps has a span, wherever the flow was started, unless it
//! belongs to a trace that is not sampled.

use std::cell::Cell;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_actors::flow::{FlowEnd, FlowOwner, host_flow, spawn_flow, start_flow};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_actors::record;
use asyncsteps_actors::sync::Mutex;
use asyncsteps_actors::trace::{self, TraceParent};
use asyncsteps_core::{Error, Execution, Flow, Outcome, sleep};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Span, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Keeps the spans that closed: `parent/name field=value`.
#[derive(Clone, Default)]
struct Spans(Arc<StdMutex<Vec<String>>>);

/// The fields of a span as text.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if matches!(field.name(), "name" | "outcome" | "error" | "info" | "attempt") {
            write!(self.0, " {}={value:?}", field.name()).expect("a string takes all");
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).expect("it is new").extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it is open");
        values.record(span.extensions_mut().get_mut::<Fields>().expect("it has some"));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it closes");
        let path: Vec<&str> = span.scope().from_root().map(|span| span.name()).collect();
        let extensions = span.extensions();
        let fields = &extensions.get::<Fields>().expect("it has some").0;
        self.0.lock().expect("nothing panics").push(format!("{}{fields}", path.join("/")));
    }
}

impl Spans {
    /// Keeps the spans of this thread, at every level.
    fn open() -> (Self, tracing::subscriber::DefaultGuard) {
        let spans = Self::default();
        let subscriber = Registry::default().with(spans.clone());
        (spans, tracing::subscriber::set_default(subscriber))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nothing panics"))
    }
}

fn named(name: &'static str) -> Flow {
    let mut flow = Flow::new();
    flow.add(|_, ()| {}).named(name);
    flow
}

#[actix::test]
async fn a_flow_that_serves_no_request_has_spans() {
    let (spans, _open) = Spans::open();
    start_flow::<()>(named("pay")).await.expect("a success");
    let expected = ["flow/step name=\"pay\" outcome=\"success\"", "flow outcome=\"success\""];
    assert_eq!(spans.take(), expected);
    spawn_flow::<()>(named("pay")).await.expect("a success");
    assert_eq!(spans.take(), expected);
}

#[actix::test]
async fn a_span_around_a_flow_keeps_its_own_outcome() {
    let spans = Spans::default();
    let subscriber = Registry::default().with(spans.clone().with_filter(LevelFilter::INFO));
    let _open = tracing::subscriber::set_default(subscriber);
    let around = tracing::info_span!("around", outcome = tracing::field::Empty);
    let flow = around.in_scope(|| start_flow::<()>(named("pay")));
    flow.await.expect("a success");
    drop(around);
    assert_eq!(spans.take(), ["around"]);
}

#[actix::test]
async fn a_flow_that_was_launched_has_spans() {
    let (spans, _open) = Spans::open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.launch(named("later"))).named("launches");
    start_flow::<()>(flow).await.expect("a success");
    tokio::task::yield_now().await;
    let all = spans.take();
    assert!(
        all.contains(&"launched/step name=\"later\" outcome=\"success\"".to_owned()),
        "{all:?}"
    );
}

#[actix::test]
async fn the_wait_for_a_lock_is_a_span_with_its_name() {
    tokio::time::pause();
    let (spans, _open) = Spans::open();
    let stock = Mutex::named("stock", Default::default());
    let held = stock.lock().await.expect("it is free");
    let mut flow = Flow::new();
    flow.run(async |()| Ok(())).named("reserve").locked(&stock);
    let handle = start_flow::<()>(flow);
    sleep_then_drop(held).await;
    handle.await.expect("a success");
    let all = spans.take();
    assert!(all.iter().any(|span| span.contains("step/step name=\"stock\"")), "{all:?}");
}

async fn sleep_then_drop<T>(held: T) {
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(held);
}

#[actix::test]
async fn a_span_says_how_its_step_ended() {
    let (spans, _open) = Spans::open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.make_loop(|asi| {
            asi.add(|asi, ()| asi.break_loop(None)).named("leaves");
        });
    })
    .named("loops");
    flow.add(|asi, ()| asi.error("Declined", "no money"))
        .named("recovers")
        .on_error(|asi, _| asi.success(()));
    flow.add(|asi, ()| asi.error("Declined", "no money")).named("fails");
    start_flow::<()>(flow).await.expect_err("the last step fails");
    assert_eq!(
        spans.take(),
        [
            "flow/step/step/step name=\"leaves\" outcome=\"left\"",
            "flow/step/step outcome=\"success\"",
            "flow/step name=\"loops\" outcome=\"success\"",
            "flow/step name=\"recovers\" outcome=\"recovered\" error=\"Declined\" info=\"no money\"",
            "flow/step name=\"fails\" outcome=\"Declined\" info=\"no money\"",
            "flow outcome=\"Declined\"",
        ]
    );
}

#[actix::test]
async fn attempts_are_numbered() {
    let (spans, _open) = Spans::open();
    let mut flow = Flow::new();
    let tries = Cell::new(0);
    flow.run(async move |()| {
        tries.set(tries.get() + 1);
        if tries.get() < 2 { Err(Error::new("Busy").into()) } else { Ok(()) }
    })
    .named("bank")
    .retry(asyncsteps_core::Retry::attempts(3).on_code("Busy"));
    start_flow::<()>(flow).await.expect("the second attempt succeeds");
    let all = spans.take();
    assert!(all.iter().any(|span| span.contains("attempt=2 outcome=\"success\"")), "{all:?}");
}

/// The owner of a flow that belongs to a trace.
struct Traced(TraceParent);

impl FlowOwner for Traced {
    fn trace(&self) -> Option<TraceParent> {
        Some(self.0)
    }

    fn ended(&mut self, _: &mut Execution, _: FlowEnd) -> Option<Outcome> {
        assert_eq!(trace::current(), Some(self.0), "it is told in the trace");
        None
    }
}

#[actix::test]
async fn what_a_flow_starts_belongs_to_its_trace() {
    let (spans, _open) = Spans::open();
    for (share, steps) in [(1.0, 2), (0.0, 0)] {
        let parent = TraceParent::root(share);
        let (told, tell) = tokio::sync::oneshot::channel();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            assert_eq!(trace::current(), Some(parent));
            asi.await_(async move {
                start_flow::<()>(named("inner")).await?;
                sleep(Duration::from_millis(1)).await;
                Ok::<(), Error>(())
            });
            asi.add(move |_, ()| {
                // another turn
                told.send(trace::current()).expect("the test waits");
            });
        });
        record::observe(&mut flow, &Span::none(), Some(parent), None);
        drop(host_flow(flow, Traced(parent)));
        assert_eq!(tell.await.expect("the flow ends"), Some(parent));
        assert_eq!(trace::current(), None);
        let all = spans.take();
        assert_eq!(all.iter().filter(|span| span.contains("inner")).count(), steps / 2, "{all:?}");
    }
}

#[test]
fn a_flow_of_a_pool_belongs_to_the_trace_of_its_caller() {
    actix::System::new().block_on(async {
        let pool = Rc::new(ArbiterPool::new(NonZeroUsize::MIN));
        let parent = TraceParent::root(1.0);
        let (told, tell) = tokio::sync::oneshot::channel();
        let (mut flow, submits) = (Flow::new(), Rc::clone(&pool));
        flow.add(move |_, ()| {
            let remote = submits.submit_anywhere::<()>(move || {
                let mut flow = Flow::new();
                flow.add(move |_, ()| {
                    told.send(trace::current()).expect("the test waits");
                });
                flow
            });
            remote.detach();
        });
        drop(host_flow(flow, Traced(parent)));
        assert_eq!(tell.await.expect("the flow ends"), Some(parent));
    });
}
