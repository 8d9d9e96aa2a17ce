//! The promise: a collector of OpenTelemetry, in another process, gets the requests that are sampled and
//! their steps as spans of the caller's trace; without a collector the service goes on.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{Connection, message, post_with};
use asyncsteps_support::shop::{self, Data, Program};
use asyncsteps_support::stream::{CERTIFICATE, RENEWED_CERTIFICATE, server_config};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

const ORDER: &str = "demo.shop:1.0:order";
const RESTOCK: &str = "demo.shop:1.0:restock";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector of traces.
struct Collector {
    address: SocketAddr,
    received: Receiver<Vec<ResourceSpans>>,
    scheme: &'static str,
}

impl Collector {
    fn start() -> Self {
        Self::listen("http", None, |connection| connection)
    }

    /// One that has a certificate, and wants a header.
    fn start_secure(header: &'static str) -> Self {
        let tls = Arc::new(server_config());
        Self::listen("https", Some(header), move |connection| {
            let tls = ServerConnection::new(Arc::clone(&tls)).expect("it is right");
            StreamOwned::new(tls, connection)
        })
    }

    fn listen<S: Read + Write>(
        scheme: &'static str,
        header: Option<&'static str>,
        over: impl Fn(TcpStream) -> S + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (sender, received) = channel();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (sender, over) = (sender.clone(), over.clone());
                thread::spawn(move || {
                    let connection = over(connection.expect("a connection"));
                    let mut connection = BufReader::new(connection);
                    while let Some(spans) = receive(&mut connection, header) {
                        // before the answer, which may be the last thing that the program waits for
                        if sender.send(spans).is_err() {
                            return;
                        }
                        connection.get_mut().write_all(ANSWER).expect("the exporter reads");
                    }
                });
            }
        });
        Self { address, received, scheme }
    }

    fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// All spans that came until the program ended.
    fn spans(&self) -> Vec<Span> {
        let resources = self.received.try_iter().flatten();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// Reads one message of the exporter, with this header; `None` when there are no more.
fn receive(connection: &mut impl BufRead, header: Option<&str>) -> Option<Vec<ResourceSpans>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_ascii_lowercase());
    }
    assert_eq!(lines[0], "post /v1/traces http/1.1");
    assert!(lines.contains(&"content-type: application/x-protobuf".to_owned()), "{lines:?}");
    assert!(header.is_none_or(|header| lines.iter().any(|line| line == header)), "{lines:?}");
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).expect("a length")];
    connection.read_exact(&mut body).expect("a body");
    let request = ExportTraceServiceRequest::decode(&*body).expect("a message of OTLP");
    Some(request.resource_spans)
}

/// A call that belongs to the trace of its caller.
fn call(client: &mut Connection, function: &str, params: &Value, flag: &str) -> Value {
    let headers = format!(
        "Content-Type: application/futoin+json\r\ntraceparent: 00-{TRACE}-{CALLER}-{flag}\r\n"
    );
    let mut request: Value = serde_json::from_slice(&message(function, params)).expect("JSON");
    request["rid"] = json!("C7");
    client.send(&post_with("/ftn/", &headers, request.to_string().as_bytes())).receive().json()
}

/// Hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The attribute of a span, if it is a text.
fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    let Some(Any::StringValue(text)) = &found.value.as_ref()?.value else { return None };
    Some(text)
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    found.unwrap_or_else(|| panic!("no {name} in {names:?}"))
}

#[test]
fn a_request_and_its_steps_arrive_in_the_trace_of_the_caller() {
    let (collector, data) = (Collector::start(), Data::new());
    let program = Program::start_with(PROGRAM, &data, &["--otlp", &collector.url()]);
    let mut client = Connection::open(program.address);
    let restocked = call(&mut client, RESTOCK, &json!({ "sku": "apple", "count": 1 }), "00");
    assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    let sold = call(&mut client, ORDER, &shop::order(&[("apple", 1)]), "01");
    assert!(sold["r"]["order"].is_number(), "{sold}");
    let refused = call(&mut client, ORDER, &shop::order(&[("apple", 1)]), "01");
    assert_eq!(refused["e"], "OutOfStock", "{refused}");
    assert_eq!(program.terminate().code(), Some(0));

    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    let requests: Vec<&Span> = spans.iter().filter(|span| span.name == ORDER).collect();
    let [sold, refused] = requests[..] else { panic!("two requests: {spans:#?}") };
    for request in [sold, refused] {
        assert_eq!(hex(&request.parent_span_id), CALLER);
        assert_eq!(request.kind, SpanKind::Server as i32);
        assert_eq!(attribute(request, "rpc.service"), Some("demo.shop:1.0"));
        assert_eq!(attribute(request, "rpc.method"), Some("order"));
        assert_eq!(attribute(request, "futoin.rid"), Some("C7"));
    }
    assert_eq!(attribute(sold, "error.type"), None);
    assert_eq!(attribute(refused, "error.type"), Some("OutOfStock"));
    let status = refused.status.as_ref().map(|status| status.code);
    assert_eq!(status, Some(StatusCode::Error as i32));

    let by_id: HashMap<&[u8], &Span> = spans.iter().map(|span| (&*span.span_id, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "each span has an id of its own");
    let placed = find(&spans, "place order");
    let place = attribute(placed, "code.file.path").expect("a place");
    assert!(place.ends_with("shop.rs") || place.ends_with("payments.rs"), "{place}");
    // the steps are inside of their request, each within the one around it
    let mut inner = placed;
    while inner.span_id != sold.span_id {
        let outer = by_id[&*inner.parent_span_id];
        let is_within = outer.start_time_unix_nano <= inner.start_time_unix_nano
            && inner.end_time_unix_nano <= outer.end_time_unix_nano;
        // the response to the client does not wait for the last callback of its flow
        assert!(is_within || outer.span_id == sold.span_id, "{inner:#?} in {outer:#?}");
        inner = outer;
    }
}

#[test]
fn a_collector_over_tls_is_one_that_is_trusted() {
    let header = "authorization: bearer s3cr3t";
    let (trusted, stranger) = (Collector::start_secure(header), Collector::start_secure(header));
    for (collector, certificate) in [(&trusted, CERTIFICATE), (&stranger, RENEWED_CERTIFICATE)] {
        let data = Data::new();
        let program = Program::start_as(PROGRAM, &data, |command| {
            command
                .args(["--otlp", &collector.url()])
                .env("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate)
                .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cr3t")
                .env("RUST_LOG", "error")
        });
        let mut client = Connection::open(program.address);
        call(&mut client, RESTOCK, &json!({ "sku": "apple", "count": 1 }), "01");
        assert_eq!(program.terminate().code(), Some(0));
    }
    let spans = trusted.spans();
    assert_eq!(hex(&find(&spans, RESTOCK).parent_span_id), CALLER);
    assert_eq!(stranger.spans(), []);
}

#[test]
fn a_service_whose_collector_is_gone_goes_on_and_says_so() {
    let data = Data::new();
    // nothing else gets the port, and nothing listens there
    let gone = TcpSocket::new_v4().expect("a socket");
    gone.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let url = format!("http://{}", gone.local_addr().expect("an address"));
    let (reader, log) = pipe().expect("a pipe");
    let program = Program::start_logging(PROGRAM, &data, &["--otlp", &url], "info", log);
    let mut client = Connection::open(program.address);
    for _ in 0..20 {
        let restocked = client.call(RESTOCK, &json!({ "sku": "apple", "count": 1 }));
        assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    }
    let (lines, read) = channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).lines() {
            if lines.send(line.expect("text")).is_err() {
                return;
            }
        }
    });
    loop {
        let line = read.recv_timeout(PATIENCE).expect("a warning");
        if line.contains("WARN") && line.contains("traces cannot be exported") {
            break;
        }
    }
    let restocked = client.call(RESTOCK, &json!({ "sku": "apple", "count": 1 }));
    assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    assert_eq!(program.terminate().code(), Some(0));
}

#[test]
fn what_is_no_address_of_a_collector_is_told_at_once() {
    let data = Data::new();
    let (mut reader, log) = pipe().expect("a pipe");
    let mut program = std::process::Command::new(PROGRAM);
    program.arg("--data").arg(data.file()).args(["--listen", "127.0.0.1:0"]);
    let status = program.args(["--otlp", "ftp://collector:4318"]).stderr(log).status();
    drop(program);
    assert_eq!(status.expect("it runs").code(), Some(1));
    let mut told = String::new();
    reader.read_to_string(&mut told).expect("text");
    assert!(told.contains("ftp://collector:4318") && told.contains("https://"), "{told}");
}
