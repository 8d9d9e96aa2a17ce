//! The promise: who logs never waits and never fails, and the log says what it lacks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, mpsc};

use asyncsteps_observe::{Format, Log, LogGuard, log};
use serde_json::Value;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;

/// What an output does when it is written to; without a plan it takes all.
#[derive(Clone, Default)]
struct Output {
    plan: Arc<Mutex<VecDeque<Act>>>,
    written: Arc<Mutex<Vec<u8>>>,
}

enum Act {
    /// It waits until the test sends something or is gone.
    Block(mpsc::Receiver<()>),
    Fail(ErrorKind),
    /// It takes this many bytes.
    Take(usize),
}

impl Output {
    fn planned(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { plan: Arc::new(Mutex::new(acts.into_iter().collect())), ..Self::default() }
    }

    fn text(&self) -> String {
        String::from_utf8(self.written.lock().expect("no panic").clone()).expect("text")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let act = self.plan.lock().expect("no panic").pop_front();
        let mut taken = bytes.len();
        match act {
            None => {}
            // both ways it goes on
            Some(Act::Block(until)) => drop(until.recv()),
            Some(Act::Fail(kind)) => return Err(kind.into()),
            Some(Act::Take(count)) => taken = count.min(taken),
        }
        self.written.lock().expect("no panic").extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a log that of the running test.
fn start(log: Log, output: &Output) -> (LogGuard, DefaultGuard) {
    let (layer, guard) = log.output(output.clone()).layer().expect("a thread");
    let subscriber = Registry::default().with(layer);
    (guard, tracing::subscriber::set_default(subscriber))
}

/// The lines of a log that ended, without their times.
fn lines(output: &Output) -> Vec<String> {
    let text = output.text();
    text.lines().map(|line| line.split_once("Z ").expect("a time").1.trim().to_owned()).collect()
}

#[test]
fn lines_beyond_the_buffer_are_dropped_and_counted() {
    let (go, blocked) = mpsc::channel();
    let output = Output::planned([Act::Block(blocked)]);
    let (guard, subscriber) = start(log().buffer(200), &output);
    tracing::info!("the first one");
    // the thread is about to take that line or has taken it; the buffer has room for some more
    for number in 0..1000 {
        tracing::info!(number, "one of many");
    }
    let dropped = guard.dropped();
    assert!((990..1000).contains(&dropped), "{dropped}");
    go.send(()).expect("it waits");
    drop((subscriber, guard));
    let lines = lines(&output);
    assert_eq!(lines[0], "INFO it::log: the first one");
    assert_eq!(lines[1], "INFO it::log: one of many number=0");
    let note = "WARN asyncsteps::log: lines of the log were dropped lines=";
    let notes = lines.iter().filter_map(|line| line.strip_prefix(note)?.parse::<u64>().ok());
    // one for each time that the thread found that lines were dropped
    assert_eq!(notes.sum::<u64>(), dropped, "{lines:#?}");
    let others = lines.iter().filter(|line| line.starts_with("INFO")).count();
    assert_eq!(others as u64, 1001 - dropped);
}

#[test]
fn lines_that_cannot_be_written_are_counted_until_they_can() {
    let output = Output::planned([Act::Fail(ErrorKind::BrokenPipe)]);
    let (guard, subscriber) = start(log(), &output);
    tracing::info!("lost");
    while guard.dropped() == 0 {
        std::thread::yield_now();
    }
    tracing::info!("there again");
    drop((subscriber, guard));
    let note = "WARN asyncsteps::log: lines of the log were dropped lines=1";
    assert_eq!(lines(&output), ["INFO it::log: there again", note]);
}

#[test]
fn an_output_that_is_busy_or_takes_little_gets_all_in_the_end() {
    let acts = [
        Act::Take(3),
        Act::Fail(ErrorKind::Interrupted),
        Act::Take(1),
        Act::Fail(ErrorKind::WouldBlock),
        Act::Take(5),
    ];
    let output = Output::planned(acts);
    let (guard, subscriber) = start(log(), &output);
    tracing::info!("whole");
    drop(subscriber);
    assert_eq!(guard.dropped(), 0);
    drop(guard);
    assert_eq!(lines(&output), ["INFO it::log: whole"]);
}

#[test]
fn a_stuck_output_does_not_keep_the_program_from_ending() {
    let (stuck, blocked) = mpsc::channel();
    let output = Output::planned([Act::Block(blocked)]);
    let (guard, subscriber) = start(log(), &output);
    tracing::info!("never written");
    drop((subscriber, guard));
    assert_eq!(output.text(), "");
    drop::<mpsc::Sender<()>>(stuck);
}

#[test]
fn values_are_quoted_escaped_and_cut_in_text() {
    let output = Output::default();
    let logging = start(log().longest_value(10), &output);
    let error = "a b=c\n\u{1b}[0m";
    tracing::info!(word = "one", %error, number = 1, debug = ?Some(1), "hello\n{}", "\u{202e}");
    tracing::info!(long = "0123456789ABC");
    drop(logging);
    let expected = [
        r#"INFO it::log: hello\n\u{202e} word="one" error="a b=c\n\u{1b}[0m" number=1 debug=Some(1)"#,
        r#"INFO it::log: long="0123456789… (13 bytes)""#,
    ];
    assert_eq!(lines(&output), expected);
}

#[test]
fn lines_in_json_have_the_spans_of_what_they_tell_of() {
    let output = Output::default();
    let logging = start(log().format(Format::Json).longest_value(4), &output);
    let outer = tracing::info_span!("request", name = "pay", outcome = tracing::field::Empty);
    let inner = tracing::info_span!(parent: &outer, "step", n = 1_u64);
    outer.record("outcome", "ok");
    // neither is entered: what is around is told by the span itself
    drop(inner);
    tracing::info!(parent: &outer, ok = true, part = 0.5, below = -1, text = "123456", "said");
    drop((outer, logging));
    let text = output.text();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let request = r#"{"name":"request","fields":{"name":"pay","outcome":"ok"}}"#;
    let request: Value = serde_json::from_str(request).expect("JSON");
    assert_eq!(lines[0]["fields"]["message"], "clos… (5 bytes)");
    assert_eq!(lines[0]["spans"][0], request);
    assert_eq!(lines[0]["spans"][1]["fields"]["n"], 1);
    let said = serde_json::json!({
        "message": "said", "ok": true, "part": 0.5, "below": -1, "text": "1234… (6 bytes)",
    });
    assert_eq!(lines[1]["fields"], said);
    assert_eq!(lines[1]["spans"], Value::from([request.clone()].to_vec()));
    assert_eq!(lines[2]["spans"], Value::from([request].to_vec()));
}

#[test]
fn lines_in_json_escape_what_acts_on_a_reader() {
    let hostile: String = ('\u{7f}'..='\u{9f}')
        .chain('\u{2028}'..='\u{202e}')
        .chain('\u{2066}'..='\u{2069}')
        .chain(['\u{0}', '\n', '\u{1b}', '\u{feff}', '\u{e0041}'])
        .collect();
    let text = format!("Zoë \"ジョー\" {hostile}{hostile} \\u2028");
    let output = Output::default();
    let logging = start(log().format(Format::Json), &output);
    let span = tracing::info_span!("request", rid = text);
    tracing::info!(parent: &span, text, "{text}");
    drop((span, logging));
    let written = output.text();
    for char in hostile.chars().filter(|char| *char != '\n') {
        assert!(!written.contains(char), "{char:?}");
    }
    assert!(written.contains(r"\u007f\u0080") && written.contains(r"\udb40\udc41"), "{written}");
    assert!(written.contains(r#"Zoë \"ジョー\" "#), "{written}");
    // the lines of the event and of the end of the span
    assert_eq!(written.lines().count(), 2);
    let line: Value = serde_json::from_str(written.lines().next().expect("a line")).expect("JSON");
    for told in [&line["fields"]["text"], &line["fields"]["message"]] {
        assert_eq!(told, &Value::from(&*text));
    }
    assert_eq!(line["spans"][0]["fields"]["rid"], Value::from(&*text));
}
