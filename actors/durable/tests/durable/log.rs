//! What the log says.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_durable::{Options, Recorded};
use asyncsteps_executor::{Returns, Steps};
use asyncsteps_journal::record::Ending;

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

fn long(asi: &mut Steps<Lab, Nothing>) -> Returns<()> {
    asi.run("long", async |_, ()| {
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        Ok(())
    })
    .recorded()
    .into()
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
