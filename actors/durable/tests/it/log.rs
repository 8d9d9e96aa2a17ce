//! What the log says.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_durable::Options;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::Query;

use crate::lab::{Lab, Nothing};
use crate::node::run;

/// Lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nothing panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn long(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps
        .run("long", async |_, ()| {
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            Ok(())
        })
        .recorded()
        .returns()
}

/// What is logged while a test runs, from INFO on.
pub(crate) fn logged(test: impl Future<Output = ()>) -> String {
    let lines = Lines::default();
    let output = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(move || output.clone())
        .finish();
    let log = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    run(test);
    drop(log);
    let text = lines.0.lock().expect("nothing panics").clone();
    String::from_utf8(text).expect("a text")
}

#[test]
fn a_cancel_is_no_error() {
    let text = logged(async {
        let lab = Lab::new(|durable, functions| _ = durable.on(functions, "long", long));
        let journal = lab.journal();
        let uid = lab.submit(&journal, "long", Options::default()).await;
        let (durable, executor) = lab.process(journal);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        tokio::time::sleep(Duration::from_secs(5)).await;
        durable.cancel(uid, "the test").await.expect("the journal takes it");
        assert_eq!(durable.ended(uid).await.expect("it is known"), Ending::Cancelled);
        node.stop().await;
    });
    let told = text.lines().find(|line| line.contains("the request was ended"));
    let told = told.unwrap_or_else(|| panic!("it is told: {text}"));
    assert!(told.contains("INFO") && told.contains("cancelled by the test"), "{told}");
    assert!(!text.contains("ERROR"), "{text}");
}

#[test]
fn a_caller_whose_request_is_cancelled_is_told_so_and_that_is_no_error() {
    let text = logged(async {
        let lab = Lab::new(|durable, functions| _ = durable.on(functions, "long", long));
        let (durable, executor) = lab.process(lab.journal());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let request = TestRequest::new("test.lab:1.0:long").user("ann", SecurityLevel::SafeOps);
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let all =
                durable.list(Query { limit: 9, ..Query::default() }).await.expect("it answers");
            durable.cancel(all[0].uid, "the test").await.expect("the journal takes it");
            all[0].uid
        };
        let (answer, uid) = tokio::join!(request.call::<()>(&executor), cancel);
        let error = answer.expect_err("it was cancelled");
        let told = format!("the request {uid} was cancelled");
        assert_eq!((error.code(), error.info()), ("InternalError", Some(&*told)));
        node.stop().await;
    });
    assert!(!text.contains("ERROR"), "{text}");
}
