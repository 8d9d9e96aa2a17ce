//! The promise: Prometheus can read how many requests there were, how long they took, how they failed,
//! and how busy the locks are.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use asyncsteps_actors::sync::{Limiter, Mutex, Throttle};
use asyncsteps_core::{Template, sync};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::observe::{HostFigures, HostMetric, MetricKind};
use asyncsteps_executor::{Executor, RequestSteps as _};
use asyncsteps_observe::Locks;
use asyncsteps_observe::metrics::Metrics;
use asyncsteps_observe::metrics::prometheus_client::metrics::counter::Counter;
use asyncsteps_transport::http::{Server, service};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join, join_all, ready};
use futures_util::poll;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

const DEFINITION: &str = r#"{
    "iface": "test.till",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": {
        "pay": { "params": { "cents": "integer" }, "result": "boolean", "throws": [ "Declined" ] }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

fn definition() -> Arc<Definition> {
    let source = Source::texts([("test.till-1.0-iface.json", DEFINITION)]);
    Loader::new([source]).load(&"test.till:1.0".parse().expect("a name")).expect("a definition")
}

fn executor() -> Executor {
    let pay = Template::build(|asi| {
        asi.add(|asi, ()| match asi.param("cents")? {
            0 => asi.error("Declined", "nothing to pay"),
            1 => panic!("a cent is not worth it"),
            _ => asi.reply(true),
        });
    });
    let builder = Executor::builder().interface(definition(), |functions| {
        functions.add("pay", &pay);
    });
    builder.build().expect("a right configuration")
}

async fn call(executor: &Executor, function: &str, cents: impl Into<Value>) {
    let params = json!({ "cents": cents.into() });
    let _ = executor.call_as_system::<Value>(function, params).await;
}

fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|other| other == *line), "no line `{line}` in:\n{text}");
    }
}

#[actix::test]
async fn requests_are_counted_by_function_and_code() {
    let executor = executor();
    for cents in [7, 7, 7, 0, 0, 1] {
        call(&executor, "test.till:1.0:pay", cents).await;
    }
    call(&executor, "test.till:1.0:pay", "text").await;
    call(&executor, "test.shop:1.0:pay", 7).await;
    // an arbiter has an actor once a request has waited there
    let _address = executor.address();
    let text = Metrics::new(&executor).text().await;
    assert_has(
        &text,
        &[
            "# TYPE asyncsteps_request_duration_seconds histogram",
            "# UNIT asyncsteps_request_duration_seconds seconds",
            r#"asyncsteps_request_duration_seconds_count{function="test.till:1.0:pay"} 7"#,
            r#"asyncsteps_request_duration_seconds_bucket{le="+Inf",function="test.till:1.0:pay"} 7"#,
            r#"asyncsteps_request_duration_seconds_bucket{le="100.0",function="test.till:1.0:pay"} 7"#,
            r#"asyncsteps_request_errors_total{function="test.till:1.0:pay",code="Declined"} 2"#,
            r#"asyncsteps_request_errors_total{function="test.till:1.0:pay",code="InternalError"} 1"#,
            r#"asyncsteps_request_errors_total{function="test.till:1.0:pay",code="InvalidRequest"} 1"#,
            r#"asyncsteps_requests_refused_total{code="UnknownInterface"} 1"#,
            "asyncsteps_requests_admitted_total 6",
            "asyncsteps_requests_rejected_total 0",
            "asyncsteps_requests_running 0.0",
            "# EOF",
        ],
    );
    assert_eq!(text.matches("asyncsteps_arbiter_delay_seconds{arbiter=").count(), 1);
    let buckets =
        text.lines().filter(|line| line.starts_with("asyncsteps_request_queue_seconds_bucket"));
    assert_eq!(buckets.count(), 30, "four in each decade, the first and the last");
}

struct Host;

impl HostFigures for Host {
    fn figures(&self) -> BoxFuture<'_, Vec<HostMetric>> {
        let metric = |name, kind, samples| HostMetric { name, help: "Some", kind, samples };
        let labels = |name: &str| vec![("function", name.to_owned())];
        Box::pin(ready(vec![
            metric("host_age", MetricKind::Seconds, vec![(labels("order"), 90.0)]),
            metric("host_age", MetricKind::Seconds, vec![(labels("refund"), 2.5)]),
            metric("host_size", MetricKind::Bytes, vec![(Vec::new(), 7.0)]),
            metric("host_lost", MetricKind::Total, vec![(Vec::new(), 3.0)]),
        ]))
    }
}

#[actix::test]
async fn the_figures_of_a_host_are_shown_as_long_as_it_is_there() {
    let executor = Executor::builder().build().expect("a right configuration");
    let host: Arc<dyn HostFigures> = Arc::new(Host);
    executor.shows(&host);
    executor.shows(&host);
    let text = Metrics::new(&executor).text().await;
    let lines = [
        r#"host_age_seconds{function="order"} 90.0"#,
        r#"host_age_seconds{function="refund"} 2.5"#,
        "host_size_bytes 7.0",
        "host_lost_total 3.0",
    ];
    assert_has(&text, &lines);
    assert_eq!(text.matches("# TYPE host_age").count(), 1, "{text}");
    drop(host);
    assert!(!Metrics::new(&executor).text().await.contains("host_"));
}

#[actix::test]
async fn locks_and_metrics_of_the_program_are_shown() {
    let executor = Executor::builder().build().expect("a right configuration");
    let stock = Mutex::named("stock", sync::mutex::Options::default());
    let mails = Throttle::named("mails", sync::throttle::Options::default());
    let client = Limiter::named("client", sync::limiter::Options::default());
    let metrics = Metrics::with_locks(
        &executor,
        Locks::new().mutex(&stock).throttle(&mails).limiter(&client),
    );
    let sent = Counter::<u64>::default();
    metrics.register(|registry| registry.register("mails", "Mails sent", sent.clone()));
    sent.inc();
    let held = stock.key("apple").lock().await.expect("it is free");
    assert_has(
        &metrics.text().await,
        &[
            r#"asyncsteps_lock_holders{kind="mutex",lock="stock"} 1.0"#,
            r#"asyncsteps_lock_keys{kind="mutex",lock="stock"} 1.0"#,
            r#"asyncsteps_lock_queued{kind="throttle",lock="mails"} 0.0"#,
            r#"asyncsteps_lock_holders{kind="limiter",lock="client"} 0.0"#,
            "mails_total 1",
        ],
    );
    drop(held);
    let text = metrics.text().await;
    assert_has(&text, &[r#"asyncsteps_lock_holders{kind="mutex",lock="stock"} 0.0"#]);
}

#[actix::test]
async fn waits_for_locks_are_counted_with_their_times() {
    tokio::time::pause();
    let executor = Executor::builder().build().expect("a right configuration");
    let one = sync::mutex::Options { max_queue: Some(1), ..Default::default() };
    let stock = Mutex::named("stock", one);
    let metrics = Metrics::with_locks(&executor, Locks::new().mutex(&stock));
    let held = stock.lock().await.expect("it is free");
    let waits = async {
        let waited = tokio::join!(stock.lock(), stock.lock());
        assert_eq!((waited.0.is_ok(), waited.1.is_ok()), (true, false), "one may wait");
        let late = tokio::time::timeout(Duration::from_millis(5), stock.lock());
        assert!(late.await.is_err(), "it is held");
    };
    let release = async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        drop(held);
    };
    tokio::join!(waits, release);
    let labels = r#"kind="mutex",lock="stock""#;
    assert_has(
        &metrics.text().await,
        &[
            &format!("asyncsteps_lock_wait_seconds_count{{{labels}}} 1"),
            &format!(r#"asyncsteps_lock_wait_seconds_bucket{{le="0.033",{labels}}} 0"#),
            &format!(r#"asyncsteps_lock_wait_seconds_bucket{{le="0.056",{labels}}} 1"#),
            &format!("asyncsteps_lock_given_up_total{{{labels}}} 1"),
            &format!("asyncsteps_lock_rejected_total{{{labels}}} 1"),
        ],
    );
}

/// What a server answers to these bytes, which end the connection.
async fn send(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[actix::test]
async fn connections_bytes_refusals_and_traces_are_shown() {
    let executor = executor();
    let metrics = Metrics::new(&executor);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::new(service("/ftn/", executor)).page("/metrics", metrics.service());
    let server = server.workers(NonZeroUsize::MIN).listen(listener).expect("it listens");
    let (stop, stopped) = oneshot::channel::<()>();
    let (served, ()) = tokio::join!(server.run_until(async { drop(stopped.await) }), async {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = |function: &str| {
            let body = format!(r#"{{"f":"{function}","p":{{"cents":7}}}}"#);
            let length = body.len();
            format!(
                "POST /ftn/ HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
                 traceparent: {trace}\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        };
        let answers = [send(address, &request("test.till:1.0:pay")).await.len()];
        send(address, &request("test.shop:1.0:pay")).await;
        let get = format!(
            "GET /metrics HTTP/1.1\r\nhost: {address}\r\naccept: application/openmetrics-text\r\n\
             connection: close\r\n\r\n"
        );
        let text = send(address, &get).await;
        assert_has(
            &text,
            &[
                r#"asyncsteps_connections{protocol="http1"} 1.0"#,
                r#"asyncsteps_connections{protocol="new"} 0.0"#,
                r#"asyncsteps_connections_accepted_total{protocol="http1"} 3"#,
                r#"asyncsteps_refusals_total{reason="unknown"} 1"#,
                r#"asyncsteps_waits{cause="external"} 0.0"#,
                "asyncsteps_ready 1.0",
            ],
        );
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a metric");
            line.trim().parse::<usize>().expect("a number")
        };
        let sent = request("test.till:1.0:pay").len() * 2 + get.len();
        assert_eq!(bytes("asyncsteps_received_bytes_total "), sent);
        assert!(bytes("asyncsteps_sent_bytes_total ") > answers[0]);
        let exemplars: Vec<&str> = text.lines().filter(|line| line.contains(" # {")).collect();
        let [exemplar] = &*exemplars else { panic!("one exemplar: {exemplars:?}") };
        assert!(exemplar.starts_with("asyncsteps_request_duration_seconds_bucket{le="));
        assert!(exemplar.contains(r#"# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} "#));
        drop(stop);
    });
    served.expect("it stops");
}

#[actix::test]
async fn get_metrics_answers_with_the_figures_and_nothing_else_does() {
    let metrics = Metrics::new(&executor());
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    for (method, path, accept, status, kind) in [
        (Method::GET, "/metrics", prometheus, 200, "application/openmetrics-text"),
        (Method::GET, "/metrics", "*/*", 200, "text/plain; version=0.0.4"),
        (Method::GET, "/metrics", "application/openmetrics-text;q=0, */*", 200, "text/plain"),
        (Method::POST, "/metrics", "*/*", 405, ""),
        (Method::GET, "/metrics/", "*/*", 404, ""),
        (Method::GET, "/", "*/*", 404, ""),
    ] {
        let request = Request::builder().method(&method).uri(path).header("accept", accept);
        let request = request.body(()).expect("a request");
        let answer = metrics.service().oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), status, "{method} {path}");
        let found = answer.headers().get("content-type").map(|kind| kind.to_str().expect("text"));
        assert!(found.unwrap_or_default().starts_with(kind), "{accept}: {found:?}");
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body.is_empty(), status != 200);
        assert_eq!(body.ends_with(b"# EOF\n"), kind.contains("openmetrics"));
    }
}

/// The text that a scrape gets.
async fn scrape(metrics: &Metrics) -> Bytes {
    let request = Request::builder().uri("/metrics").body(()).expect("a request");
    let answer = metrics.service().oneshot(request).await.expect("an answer");
    answer.into_body().collect().await.expect("a body").to_bytes()
}

#[actix::test]
async fn scrapes_that_wait_at_the_same_time_share_a_text() {
    let executor = executor();
    // a text waits for the answer of the arbiter
    let _address = executor.address();
    let metrics = Metrics::new(&executor);
    let texts = join_all((0..100).map(|_| scrape(&metrics))).await;
    let places: HashSet<*const u8> = texts.iter().map(|text| text.as_ptr()).collect();
    assert_eq!(places.len(), 2, "the first one, and one for those that came after it was begun");
}

#[actix::test]
async fn a_scrape_gets_no_text_that_was_begun_before() {
    let executor = executor();
    let _address = executor.address();
    let metrics = Metrics::new(&executor);
    let sent = Counter::<u64>::default();
    metrics.register(|registry| registry.register("mails", "Mails sent", sent.clone()));
    for mails in 0..3 {
        let text = String::from_utf8(scrape(&metrics).await.into()).expect("text");
        assert_has(&text, &[&format!("mails_total {mails}")]);
        sent.inc();
    }
    let mut first = Box::pin(scrape(&metrics));
    assert!(poll!(&mut first).is_pending());
    let (first, second) = join(first, scrape(&metrics)).await;
    assert_ne!(first.as_ptr(), second.as_ptr());

    // one that is given up leaves the turn to the next
    let mut given_up = Box::pin(scrape(&metrics));
    assert!(poll!(&mut given_up).is_pending());
    drop(given_up);
    assert_ne!(scrape(&metrics).await.as_ptr(), second.as_ptr());
}

#[actix::test]
async fn while_many_texts_are_not_read_one_a_second_is_made() {
    tokio::time::pause();
    let metrics = Metrics::new(&executor());
    let distinct = |texts: &[Bytes]| {
        texts.iter().map(|text| text.as_ptr()).collect::<HashSet<*const u8>>().len()
    };
    let mut unread = Vec::new();
    for _ in 0..100 {
        unread.push(scrape(&metrics).await);
    }
    assert_eq!(distinct(&unread), 16);
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..100 {
        unread.push(scrape(&metrics).await);
    }
    assert_eq!(distinct(&unread), 17);

    // those that read get new ones again
    unread.clear();
    let (one, other) = (scrape(&metrics).await, scrape(&metrics).await);
    assert_ne!(one.as_ptr(), other.as_ptr());
}

#[actix::test]
async fn promtool_reads_both_formats_and_finds_no_fault_with_the_names() {
    let executor = executor();
    for cents in [7, 0] {
        call(&executor, "test.till:1.0:pay", cents).await;
    }
    let stock = Mutex::named("stock", sync::mutex::Options::default());
    let metrics = Metrics::with_locks(&executor, Locks::new().mutex(&stock));
    promtool(&["check", "metrics"], &scrape(&metrics).await);
    // samples that are kept have times
    let text = metrics.text().await;
    let timed = text.lines().map(|line| match line.starts_with('#') {
        true => format!("{line}\n"),
        false => format!("{line} 1.0\n"),
    });
    let folder = env::temp_dir().join(format!("figures-of-test-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("figures.txt");
    fs::write(&file, timed.collect::<String>()).expect("it is written");
    let paths = [&file, &folder].map(|path| path.to_str().expect("a path of UTF-8"));
    promtool(&["tsdb", "create-blocks-from", "openmetrics", paths[0], paths[1]], b"");
    // it is in the folder for temporary files
    let _ = fs::remove_dir_all(folder);
}

/// What it says about a text has to be nothing.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn promtool(arguments: &[&str], text: &[u8]) {
    let check = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut check = match check {
        Ok(check) => check,
        Err(missing) => return eprintln!("not checked: promtool: {missing}"),
    };
    check.stdin.take().expect("a pipe").write_all(text).expect("it reads");
    let output = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(text);
    assert!(output.status.success() && said.is_empty(), "{said}{text}");
}
