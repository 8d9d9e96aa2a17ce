//! The promise: an application serves its own paths beside the executor, and finds what it keeps with
//! a connection.

use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use asyncsteps_core::Template;
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Grant, RequestContext, SecurityLevel, SecurityProvider, User,
};
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_support::client::{Connection, ping, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::h2::{Answer, Http2, flag, head, kind};
use asyncsteps_support::server::TestServer;
use asyncsteps_support::ws::Socket;
use asyncsteps_transport::http::{RequestBody, RequestHead};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::json;
use tower::BoxError;

/// An application that gives back what it gets, and who sent it.
async fn echo(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, BoxError> {
    let (head, body) = request.into_parts();
    let peer: &SocketAddr = head.extensions.get().ok_or("it has no address")?;
    let (method, path, ip) = (&head.method, head.uri.path(), peer.ip());
    if path == "/broken" {
        return Err("a secret".into());
    }
    let text = format!("{method} {path} from {ip}: ");
    let body = body.collect().await?.to_bytes();
    Ok(Response::new(Full::new([text.as_bytes(), &body].concat().into())))
}

fn host() -> TestServer {
    let keep = |service| service;
    TestServer::start_server(None, conform::executor, keep, |server| {
        server.page("/", tower::service_fn(echo))
    })
}

#[test]
fn the_applications_own_service_has_all_other_paths() {
    let host = host();
    let mut client = Connection::open(host.address);
    let answer = client.send(&post_with("/other", "", b"hi")).receive();
    assert_eq!((answer.status(), answer.text()), (200, "POST /other from 127.0.0.1: hi"));
    // on the same connection
    assert_eq!(client.call("conform.main:1.2:answer", &json!({})), json!({ "r": 42 }));
    let answer = client.send(b"GET /ftnx HTTP/1.1\r\nHost: a\r\n\r\n").receive();
    assert_eq!(answer.text(), "GET /ftnx from 127.0.0.1: ");

    let mut client = Http2::open(host.address);
    client.send(kind::HEADERS, flag::END_HEADERS, 1, &head("PUT", "/other", &[]));
    client.send(kind::DATA, flag::END_STREAM, 1, b"hi");
    assert_eq!(client.answer(1), Answer::Ok(b"PUT /other from 127.0.0.1: hi".to_vec()));
}

#[test]
fn a_page_has_its_path_and_all_below_the_longest_first() {
    let page = |name: &'static str| {
        tower::service_fn(move |_: Request<RequestBody>| {
            ready(Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(name))))
        })
    };
    let served = |with_rest: bool| {
        let keep = |service| service;
        TestServer::start_server(None, conform::executor, keep, move |server| {
            let server = server.page("/a", page("a")).page("/a/b/", page("b"));
            if with_rest { server.page("/", page("rest")) } else { server }
        })
    };
    let paths = ["/a", "/a/", "/a/c", "/a/b", "/a/b/c?d", "/a/bc", "/ab", "/", "/ftnx"];
    let answers = |host: &TestServer| {
        let mut client = Connection::open(host.address);
        paths.map(|path| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.send(head.as_bytes()).receive();
            format!("{}{}", answer.status(), answer.text())
        })
    };
    let own = ["200a", "200a", "200a", "200b", "200b", "200a"];
    assert_eq!(answers(&served(true)), [&own[..], &["200rest"; 3]].concat()[..]);
    assert_eq!(answers(&served(false)), [&own[..], &["404"; 3]].concat()[..]);
}

#[test]
fn an_error_of_it_is_answered_with_no_details() {
    let host = host();
    let mut client = Connection::open(host.address);
    let answer = client.send(b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n").receive();
    assert_eq!((answer.status(), answer.text()), (500, ""));
    ping(host.address);
}

/// More connections than a worker keeps buffers for.
const OTHERS: usize = 100;

#[test]
fn a_body_that_the_application_keeps_is_no_request() {
    let (keep, kept) = mpsc::channel();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let kept = keep.send(request.into_body());
        async move { kept.map(|()| Response::new(Full::<Bytes>::default())) }
    });
    let host = TestServer::start_server(
        None,
        conform::executor,
        |service| service,
        |server| server.page("/", service).workers(NonZeroUsize::MIN),
    );
    let mut client = Connection::open(host.address);
    let hidden = post_with("/other", "", b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.send(&hidden).receive().status(), 200);
    let idle = || {
        let mut other = Connection::open(host.address);
        assert_eq!(other.send(&post_with("/other", "", b"")).receive().status(), 200);
        other
    };
    let _others: Vec<_> = (0..OTHERS).map(|_| idle()).collect();
    // the application is done with all bodies
    assert_eq!(kept.try_iter().count(), OTHERS + 1);
    assert_eq!(client.call("conform.main:1.2:answer", &json!({})), json!({ "r": 42 }));
}

/// Larger than what a connection reads ahead.
const LARGE: usize = 100 << 10;

#[test]
fn a_body_can_be_read_by_another_thread_after_the_answer() {
    let (keep, kept) = mpsc::channel::<RequestBody>();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let kept = keep.send(request.into_body());
        async move { kept.map(|()| Response::new(Full::<Bytes>::default())) }
    });
    let host = TestServer::start_server(
        None,
        conform::executor,
        |service| service,
        |server| server.page("/", service).workers(NonZeroUsize::MIN),
    );
    let mut client = Connection::open(host.address);
    let request = post_with("/other", "", &[b'x'; LARGE]);
    assert_eq!(client.send(&request).receive().status(), 200);
    let body = actix_rt::System::new().block_on(kept.recv().expect("a request").collect());
    assert_eq!(body.expect("all of it").to_bytes().len(), LARGE);
    // the connection goes on
    assert_eq!(client.call("conform.main:1.2:answer", &json!({})), json!({ "r": 42 }));
}

#[test]
fn an_upgrade_is_the_executors_alone() {
    let host = host();
    let mut socket = Socket::open(host.address);
    assert_eq!(socket.call("conform.main:1.2:answer", &json!({})), json!({ "r": 42 }));
}

/// What is kept with a connection.
struct Number(usize);

/// Knows callers by their connections.
#[derive(Debug)]
struct ByConnection;

impl SecurityProvider for ByConnection {
    fn check(&self, _: &Attempt<'_>) -> AuthOutcome {
        unreachable!("there are no passwords")
    }

    fn identify(&self, request: &RequestContext<'_>) -> Option<AuthOutcome> {
        let Number(number) = request.transport::<RequestHead>()?.connection_data()?;
        let user = User::new(format!("client {number}"), SecurityLevel::SafeOps);
        Some(AuthOutcome::Known(Ok(Grant::new(user))))
    }
}

fn executor() -> Executor {
    let whoami = Template::build(|asi| {
        asi.add(|asi, ()| {
            let user = asi.request()?.user().map(|user| user.local_id().to_owned());
            asi.reply(json!({ "lid": user, "gid": null, "seclvl": "SafeOps" }))
        });
    });
    Executor::builder()
        .security(ByConnection)
        .interface(conform::definition("conform.secret:1.0"), |functions| {
            functions.others_not_implemented();
            functions.add("whoami", &whoami);
        })
        .build()
        .expect("a right configuration")
}

#[test]
fn requests_find_what_is_kept_with_their_connection() {
    let count = AtomicUsize::new(0);
    let host = TestServer::start_server(
        None,
        executor,
        |service| service,
        move |server| {
            server.on_connect(move |connection| {
                assert_eq!(connection.peer().map(|it| it.ip()), Some(Ipv4Addr::LOCALHOST.into()));
                Number(count.fetch_add(1, Ordering::Relaxed))
            })
        },
    );
    let user = |number| json!(format!("client {number}"));
    let whoami = "conform.secret:1.0:whoami";
    let mut first = Connection::open(host.address);
    assert_eq!(first.call(whoami, &json!({}))["r"]["lid"], user(0));
    let mut second = Socket::open(host.address);
    let mut third = Http2::open(host.address);
    for _ in 0..2 {
        assert_eq!(first.call(whoami, &json!({}))["r"]["lid"], user(0));
        assert_eq!(second.call(whoami, &json!({}))["r"]["lid"], user(1));
    }
    for stream in [1, 3] {
        assert_eq!(third.call(stream, whoami, &json!({}))["r"]["lid"], user(2));
    }
}
