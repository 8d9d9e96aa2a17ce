//! What the log tells of flows: errors that no caller sees, and where a flow was when its deadline
//! passed.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps::{ErrorExt, Flow, codes};
use asyncsteps_actors::flow::{FlowHandle, IntoFlow, start_flow};
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Logs until the guard is dropped.
    fn open(&self) -> tracing::subscriber::DefaultGuard {
        let log =
            tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(self.clone());
        tracing::subscriber::set_default(log.finish())
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[actix::test]
async fn an_error_of_a_cancel_handler_is_logged_with_its_step() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_cancel(|_| {
            Err::<(), _>(io::Error::other("the bank is closed")).code("NotRefunded")
        });
    })
    .named("pay");
    flow.add(|asi, ()| asi.wait_only());
    let handle: FlowHandle = start_flow(flow);
    handle.cancel();
    assert!(handle.await.is_err());
    let text = log.text();
    let parts = ["ERROR", "a cancel handler failed", "NotRefunded", "the bank is closed", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_panic_of_a_cancel_handler_is_logged_with_its_step() {
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.set_cancel(|_| -> () { panic!("a bug") })).named("pay");
    let handle: FlowHandle = start_flow(flow);
    handle.cancel();
    assert!(handle.await.is_err());
    let text = log.text();
    let parts = ["ERROR", "a step panicked", "a bug", "`pay`"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[actix::test]
async fn a_deadline_that_passes_tells_where_the_flow_waited() {
    tokio::time::pause();
    let log = Log::default();
    let _open = log.open();
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| asi.wait_only()).named("bank");
    })
    .named("pay");
    let handle: FlowHandle = start_flow(flow.within(Duration::from_secs(1)));
    assert_eq!(handle.await.expect_err("it takes too long").code(), codes::TIMEOUT);
    let text = log.text();
    let parts = ["WARN", "`pay`", "`bank`", "waits for a time limit or a cancel"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}
