//! Flows on the arbiters of a pool: placement, results, cancel from other threads, shutdown.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use asyncsteps_actors::drain::Drained;
use asyncsteps_actors::flow::{Cancel, DeadlineSteps, Inspect, IntoFlow, start_flow};
use asyncsteps_actors::pool::ArbiterPool;
use asyncsteps_core::{Completion, Flow, Template, codes};
use tokio::sync::{Notify, oneshot};

const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

const GRACE: Duration = Duration::from_secs(3600);

/// What waiting flows report.
struct Reports {
    sender: Sender<Report>,
    receiver: Receiver<Report>,
}

#[derive(Debug)]
enum Report {
    Waits(i32, std::thread::ThreadId, Completion),
    Cancelled(i32),
    Finished(i32),
}

impl Reports {
    fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }

    /// A flow that reports and waits until it is given a number, its result.
    fn job(&self, n: i32) -> impl FnOnce() -> Flow + Send + use<> {
        let sender = self.sender.clone();
        move || {
            let finishes = sender.clone();
            let mut flow = Flow::new();
            flow.add(move |asi, ()| {
                let here = std::thread::current().id();
                let cancels = sender.clone();
                asi.set_cancel(move |_| {
                    // the test may be over
                    let _ = cancels.send(Report::Cancelled(n));
                });
                let _ = sender.send(Report::Waits(n, here, asi.wait_external()));
            });
            flow.add(move |asi, given: i32| {
                // the test may be over
                let _ = finishes.send(Report::Finished(n));
                asi.success(given)
            });
            flow
        }
    }

    fn next_finished(&self) -> i32 {
        match self.receiver.recv() {
            Ok(Report::Finished(n)) => n,
            other => panic!("no flow finished: {other:?}"),
        }
    }

    fn next_waiting(&self) -> (i32, std::thread::ThreadId, Completion) {
        match self.receiver.recv() {
            Ok(Report::Waits(n, thread, completion)) => (n, thread, completion),
            other => panic!("no flow waits: {other:?}"),
        }
    }

    fn next_cancelled(&self) -> i32 {
        match self.receiver.recv() {
            Ok(Report::Cancelled(n)) => n,
            other => panic!("no flow was cancelled: {other:?}"),
        }
    }
}

/// Polls once.
async fn polled<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn counts(ended: Drained) -> (usize, usize) {
    (ended.finished, ended.cancelled)
}

#[actix::test]
async fn submitted_flows_go_to_the_arbiter_with_the_fewest_and_never_here() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let mut flows = Vec::new();
    let mut threads = Vec::new();
    for n in 0..4 {
        flows.push((pool.submit_anywhere::<i32>(reports.job(n)), reports.next_waiting()));
        threads.push(flows[flows.len() - 1].1.1);
    }
    assert_eq!(pool.load(), [Some(2), Some(2)]);
    assert!(threads[0] != threads[1] && threads[..2] == threads[2..]);
    assert!(!threads.contains(&std::thread::current().id()));
    for (flow, (n, _, completion)) in flows {
        completion.success(n * 10).expect("it waits");
        assert_eq!(flow.await.expect("it succeeds"), n * 10);
    }
    assert_eq!(counts(pool.shutdown(GRACE).await), (0, 0), "all was over before");
}

#[actix::test]
async fn a_template_goes_there_with_its_arguments_and_fails_with_its_error() {
    let pool = ArbiterPool::new(TWO);
    let checked = Template::build(|asi| {
        asi.add(|asi, n: i32| match n {
            0 => asi.error("Zero", "no"),
            n => asi.success(100 / n),
        });
    });
    assert_eq!(pool.submit_to::<i32>(1, (checked.clone(), 5)).await.expect("it succeeds"), 20);
    let error = pool.submit_anywhere::<i32>((checked.clone(), 0)).await.expect_err("it fails");
    assert_eq!((error.code(), error.info()), ("Zero", Some("no")));
    let error = pool.submit_to::<i32>(2, (checked, 1)).await.expect_err("there are two");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    let broken = || -> Flow { panic!("no flow") };
    let error = pool.submit_anywhere::<()>(broken).await.expect_err("it panics");
    assert_eq!(error.info(), Some("the flow was not made"));
}

#[actix::test]
async fn a_submitted_flow_is_cancelled_by_its_handle_from_any_thread() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let cancelled = pool.submit_anywhere::<i32>(reports.job(1));
    let first = reports.next_waiting();
    let waits = std::thread::spawn(move || {
        cancelled.cancel();
        cancelled
    });
    assert!(waits.join().expect("no panic").await.is_err());
    assert_eq!(reports.next_cancelled(), 1);
    assert!(!first.2.is_valid());

    let dropped = pool.submit_anywhere::<i32>(reports.job(2));
    let second = reports.next_waiting();
    std::thread::spawn(move || drop(dropped)).join().expect("no panic");
    assert_eq!(reports.next_cancelled(), 2);
    assert!(!second.2.is_valid());

    pool.submit_anywhere::<i32>(reports.job(3)).detach();
    let (_, _, third) = reports.next_waiting();
    third.success(0).expect("it still waits");
    assert_eq!(reports.next_finished(), 3);
}

#[actix::test]
async fn a_local_flow_is_cancelled_from_another_thread() {
    let reports = Reports::new();
    let handle = start_flow::<i32>(reports.job(7));
    let (_, _, completion) = reports.next_waiting();
    assert_eq!(handle.stack().waits.len(), 1);
    let canceller = handle.canceller();
    std::thread::spawn(move || canceller.cancel()).join().expect("no panic");
    assert!(handle.await.is_err());
    assert_eq!(reports.next_cancelled(), 7);
    assert!(!completion.is_valid());
}

#[actix::test]
async fn shutdown_lets_flows_finish_and_cancels_the_rest() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let mut submitted: Vec<_> =
        (0..6).map(|n| Some(pool.submit_anywhere::<i32>(reports.job(n)))).collect();
    let mut waiting: Vec<_> = (0..6).map(|_| reports.next_waiting()).collect();
    waiting.sort_unstable_by_key(|(n, ..)| *n);
    // one is over before, and one is not waited for by anybody
    waiting[0].2.success(0).expect("it waits");
    assert_eq!(submitted[0].take().expect("taken once").await.expect("it succeeds"), 0);
    submitted[5].take().expect("taken once").detach();
    assert_eq!(reports.next_finished(), 0);
    // from here on the grace is over as soon as there is nothing else to do
    tokio::time::pause();
    let mut shutdown = Box::pin(pool.shutdown(GRACE));
    assert!(polled(&mut shutdown).await.is_none());
    waiting[1].2.success(10).expect("it waits");
    assert_eq!(reports.next_finished(), 1);
    assert_eq!(counts(shutdown.await), (1, 4));
    assert_eq!(submitted[1].take().expect("taken once").await.expect("it finished"), 10);
    let mut cancelled: Vec<i32> = (0..4).map(|_| reports.next_cancelled()).collect();
    cancelled.sort_unstable();
    assert_eq!(cancelled, [2, 3, 4, 5]);
    for flow in submitted.into_iter().flatten() {
        assert_eq!(flow.await.expect_err("cancelled").code(), codes::INTERNAL_ERROR);
    }
}

#[actix::test]
async fn shutdown_ends_as_soon_as_nothing_is_left_and_refuses_what_comes() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let flow = pool.submit_anywhere::<i32>(reports.job(1));
    let (_, _, completion) = reports.next_waiting();
    let arbiter = pool.arbiters().next().expect("two").clone();
    let mut shutdown = Box::pin(pool.shutdown(GRACE));
    assert!(polled(&mut shutdown).await.is_none());
    // flows of the pool itself may go on to start others
    let (tell, told) = oneshot::channel();
    arbiter.spawn_fn(move || {
        let mut flow = Flow::new();
        flow.add(move |_, ()| {
            let _ = tell.send(());
        });
        start_flow::<()>(flow).detach();
    });
    told.await.expect("it runs");
    completion.success(0).expect("it waits");
    let ended = shutdown.await;
    assert_eq!((counts(ended), ended.not_undone), ((1, 0), 0));
    flow.await.expect("it finished");
}

#[actix::test]
async fn an_arbiter_that_ends_early_fails_its_flows_and_gets_no_more() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let lost = pool.submit_to::<i32>(0, reports.job(1));
    let _waits = reports.next_waiting();
    let kept = pool.submit_to::<i32>(1, reports.job(2));
    let (_, _, completion) = reports.next_waiting();
    pool.arbiters().next().expect("two").stop();
    assert_eq!(lost.await.expect_err("it is gone").code(), codes::INTERNAL_ERROR);
    assert_eq!(reports.next_cancelled(), 1);
    let error = loop {
        // until its thread has ended it may seem to be there, and what comes is lost
        let refused = pool.submit_to::<()>(0, Flow::new);
        let error = refused.await.expect_err("nothing runs there");
        if pool.load()[0].is_none() {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error.info(), Some("the arbiter is gone"));
    assert_eq!(pool.load(), [None, Some(1)]);
    pool.submit_anywhere::<()>(Flow::new).await.expect("the other one runs it");
    completion.success(0).expect("it waits");
    kept.await.expect("it succeeds");
    assert_eq!(counts(pool.shutdown(GRACE).await), (0, 0));
}

#[actix::test]
async fn a_deadline_counts_from_the_submission_and_cancels_there() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let (tell, told) = oneshot::channel();
    pool.arbiters().next().expect("two").spawn_fn(move || {
        // its time passes as soon as it has nothing to do
        tokio::time::pause();
        let _ = tell.send(());
    });
    told.await.expect("it runs");
    let late = pool.submit_to::<i32>(0, reports.job(1).within(GRACE));
    assert_eq!(late.await.expect_err("it waits too long").code(), codes::TIMEOUT);
    let (_, _, completion) = reports.next_waiting();
    assert_eq!(reports.next_cancelled(), 1);
    assert!(!completion.is_valid());
    let left = || {
        let mut flow = Flow::new();
        flow.add(|asi, ()| asi.success(asi.remaining().expect("a deadline").as_secs()));
        flow
    };
    let left = pool.submit_to::<u64>(1, left.within(GRACE)).await.expect("it succeeds");
    assert!((1..=GRACE.as_secs()).contains(&left), "{left} s");
}

#[actix::test]
async fn a_submitted_flow_has_an_address_before_it_begins() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let flow = pool.submit_to::<i32>(0, reports.job(1));
    let address = flow.address().expect("it was not refused");
    let _waits = reports.next_waiting();
    assert_eq!(address.send(Inspect).await.expect("it answers").waits.len(), 1);
    address.send(Cancel).await.expect("it answers");
    assert!(flow.await.is_err());
    assert_eq!(reports.next_cancelled(), 1);
    assert!(pool.submit_to::<i32>(2, reports.job(2)).address().is_none(), "there are two");
}

#[actix::test]
async fn a_submitted_flow_that_is_cancelled_before_it_begins_runs_no_step() {
    let (pool, reports) = (ArbiterPool::new(NonZeroUsize::MIN), Reports::new());
    // the arbiter is busy until both submissions have arrived
    let (go_on, waits) = channel::<()>();
    pool.arbiters().next().expect("one").spawn_fn(move || {
        // told by the end of the sender
        let _ = waits.recv();
    });
    let cancelled = pool.submit_anywhere::<i32>(reports.job(1));
    cancelled.cancel();
    drop(pool.submit_anywhere::<i32>(reports.job(2)));
    let kept = pool.submit_anywhere::<i32>(reports.job(3));
    drop(go_on);
    assert!(cancelled.await.is_err());
    let (n, _, completion) = reports.next_waiting();
    assert_eq!(n, 3, "the others ran no step");
    completion.success(30).expect("it waits");
    assert_eq!(kept.await.expect("it succeeds"), 30);
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[actix::test]
async fn shutdown_logs_where_the_flows_are_that_it_cancels() {
    let (pool, reports) = (ArbiterPool::new(TWO), Reports::new());
    let flow = pool.submit_anywhere::<i32>(reports.job(1));
    let _waits = reports.next_waiting();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let logged = tracing::subscriber::set_default(subscriber);
    assert_eq!(counts(pool.shutdown(Duration::ZERO).await), (0, 1));
    drop(logged);
    assert!(flow.await.is_err());
    let text = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("it is text");
    assert!(text.contains("the grace is over: a flow is cancelled"), "{text}");
    assert!(
        text.contains("arbiter_pool.rs") && text.contains("a completion from outside"),
        "{text}"
    );
}

#[actix::test]
async fn shutdown_tells_how_many_flows_it_leaves_undone() {
    let pool = ArbiterPool::new(NonZeroUsize::MIN);
    let [began, undoing] = [(); 2].map(|()| Arc::new(Notify::new()));
    let (tells, undoes) = (Arc::clone(&began), Arc::clone(&undoing));
    let booking = pool.submit_anywhere::<()>(move || {
        let mut flow = Flow::new();
        flow.run(async |()| Ok(())).undo(async move |_| {
            undoes.notify_one();
            std::future::pending().await
        });
        flow.run(async move |()| {
            tells.notify_one();
            std::future::pending::<Result<(), _>>().await
        });
        flow
    });
    began.notified().await;
    drop(booking);
    undoing.notified().await;
    // the time for undos is over as soon as there is nothing else to do
    tokio::time::pause();
    assert_eq!(pool.shutdown(Duration::ZERO).await.not_undone, 1);
}

#[actix::test]
async fn shutdown_logs_no_undo_as_cancelled() {
    let (pool, reports) = (ArbiterPool::new(NonZeroUsize::MIN), Reports::new());
    let [began, undoing, released] = [(); 3].map(|()| Arc::new(Notify::new()));
    let (tells, undoes, waits) = (Arc::clone(&began), Arc::clone(&undoing), Arc::clone(&released));
    let booking = pool.submit_anywhere::<()>(move || {
        let mut flow = Flow::new();
        flow.run(async |()| Ok(())).undo(async move |_| {
            undoes.notify_one();
            waits.notified().await;
            Ok(())
        });
        flow.run(async move |()| {
            tells.notify_one();
            std::future::pending::<Result<(), _>>().await
        });
        flow
    });
    began.notified().await;
    drop(booking);
    undoing.notified().await;
    // the undo runs until this one is cancelled
    let _holds = pool.submit_anywhere::<()>(move || {
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            asi.set_cancel(move |_| released.notify_one());
            let completion = asi.wait_external();
            asi.stack(completion);
        });
        flow
    });
    // a job that waits runs after it
    let _other = pool.submit_anywhere::<i32>(reports.job(1));
    let _waits = reports.next_waiting();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let logged = tracing::subscriber::set_default(subscriber);
    pool.shutdown(Duration::ZERO).await;
    drop(logged);
    let text = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("it is text");
    assert_eq!(text.matches("the grace is over: a flow is cancelled").count(), 2, "{text}");
}
