//! What the log says.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
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

/// A loop and items, one after the other, each of which takes 20 ms.
fn turns(steps: &Steps<Lab, Nothing>) -> Returns<Vec<i32>> {
    let takes = async || tokio::time::sleep(Duration::from_millis(20)).await;
    steps
        .run("begin", async |_, ()| Ok(0))
        .recorded()
        .then_repeat("loop", move |turn| {
            turn.run("turn", async move |_, turn| {
                takes().await;
                Ok(if turn == 1 { ControlFlow::Break(2) } else { ControlFlow::Continue(turn + 1) })
            })
            .repeatable()
            .returns()
        })
        .recorded_with_input()
        .then_each(
            "all",
            |_, count| (0..count).collect(),
            move |item| {
                item.run("take", async move |_, item| {
                    takes().await;
                    Ok(item)
                })
                .recorded()
                .returns()
            },
        )
        .at_once(1)
        .returns()
}

#[test]
fn iterations_and_items_are_shown_as_such_and_not_as_attempts() {
    run(async {
        let lab = Lab::new(|durable, functions| _ = durable.on(functions, "turns", turns));
        let journal = lab.journal();
        let durable = Durable::new(journal.clone());
        let interface = Interface::new("test.lab:1.0".parse().expect("it is a name"));
        let executor = Executor::builder()
            .record(Retention::ALL)
            .service(interface, lab.clone(), |functions| {
                durable.on(functions, "turns", turns);
            })
            .build()
            .expect("the lab is complete");
        let uid = lab.submit(&journal, "turns", Options::default()).await;
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        durable.ended(uid).await.expect("the flow is known");
        let [record] = &executor.recent()[..] else { panic!("one request is kept") };
        let line = record.steps.to_string();
        let count = |what: &str| line.matches(what).count();
        let shown = (count("iteration "), count("item "), count("try "));
        assert_eq!(shown, (2, 2, 0), "{line}");
        node.stop().await;
    });
}
