//! The promise: a console answers those who may see it, all open pages share their snapshots, and they
//! end with the executor.

use std::net::SocketAddr;
use std::time::Duration;

use asyncsteps_console::{Console, ConsoleBody};
use asyncsteps_executor::Executor;
use asyncsteps_executor::observe::Locks;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

fn executor() -> Executor {
    Executor::builder().build().expect("a right configuration")
}

/// A request from this machine, as a server gives it to the service.
async fn ask(console: &Console, method: Method, path: &str) -> Response<ConsoleBody> {
    let peer: SocketAddr = "127.0.0.1:4000".parse().expect("an address");
    let request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
    let request = request.extension(peer).body(()).expect("a request");
    console.service().oneshot(request).await.expect("an answer")
}

async fn next(page: &mut Response<ConsoleBody>) -> Option<Bytes> {
    let frame = page.body_mut().frame().await?.expect("no error");
    Some(frame.into_data().expect("data"))
}

#[actix::test]
async fn each_path_has_its_methods() {
    let console = Console::new(&executor(), Locks::new());
    for (method, path, status) in [
        (Method::GET, "/console", StatusCode::OK),
        (Method::HEAD, "/console/", StatusCode::OK),
        (Method::GET, "/console/main.js", StatusCode::OK),
        (Method::POST, "/console/main.js", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/live", StatusCode::OK),
        (Method::POST, "/console/live", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/console/steps/7", StatusCode::NOT_FOUND),
        (Method::GET, "/console/steps/none", StatusCode::NOT_FOUND),
        (Method::GET, "/console/cancel/7", StatusCode::METHOD_NOT_ALLOWED),
        // a form of another site could send it
        (Method::POST, "/console/cancel/7", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::GET, "/console/../secret", StatusCode::NOT_FOUND),
        (Method::GET, "/consoles", StatusCode::NOT_FOUND),
        (Method::GET, "/", StatusCode::NOT_FOUND),
    ] {
        let answer = ask(&console, method.clone(), path).await;
        assert_eq!(answer.status(), status, "{method} {path}");
        let policy = answer.headers().get("content-security-policy").expect("a policy");
        assert!(policy.to_str().is_ok_and(|it| it.starts_with("default-src 'none'; ")));
    }
}

#[actix::test]
async fn without_its_token_it_tells_nothing() {
    let console = Console::new(&executor(), Locks::new()).token("a-long-secret");
    assert_eq!(ask(&console, Method::GET, "/console").await.status(), StatusCode::OK);
    for path in ["/console/live", "/console/steps/7"] {
        let answer = ask(&console, Method::GET, path).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    let cancel = ask(&console, Method::POST, "/console/cancel/7").await;
    assert_eq!(cancel.status(), StatusCode::UNAUTHORIZED);
}

#[actix::test]
async fn pages_share_a_snapshot_a_second_until_the_executor_closes() {
    tokio::time::pause();
    let executor = executor();
    let console = Console::new(&executor, Locks::new());
    let mut one = ask(&console, Method::GET, "/console/live").await;
    let mut other = ask(&console, Method::GET, "/console/live").await;
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        let (event, same) = tokio::join!(next(&mut one), next(&mut other));
        let event = event.expect("a snapshot");
        assert!(event.starts_with(b"data: {") && event.ends_with(b"}\n\n"), "{event:?}");
        // the same memory
        assert_eq!(same.expect("a snapshot").as_ptr(), event.as_ptr());
    }
    // in virtual time, whose timers are late by a millisecond at the most
    let seconds = began.elapsed().as_secs_f64();
    assert!((2.0..2.1).contains(&seconds), "{seconds}");

    executor.close(Duration::ZERO).await;
    assert_eq!((next(&mut one).await, next(&mut other).await), (None, None));
}

#[actix::test]
async fn no_more_pages_are_open_than_people_can_look_at() {
    let console = Console::new(&executor(), Locks::new());
    let mut pages = Vec::new();
    for _ in 0..32 {
        pages.push(ask(&console, Method::GET, "/console/live").await);
    }
    let refused = ask(&console, Method::GET, "/console/live").await.status();
    assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
    pages.pop();
    assert_eq!(ask(&console, Method::GET, "/console/live").await.status(), StatusCode::OK);
}
