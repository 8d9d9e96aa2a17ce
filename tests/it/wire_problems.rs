//! The promise: functions called by their URLs answer errors as plain HTTP has it, if that is wanted, and
//! messages as FTN5 has it in any case.

use std::fmt::Write as _;
use std::future::pending;
use std::time::Duration;

use asyncsteps_core::{Error, Template, codes};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::security::{JwtKeys, JwtProvider, MacAlgorithm, MacKey};
use asyncsteps_executor::{
    ClientLimits, Executor, FailedCall, Invocation, Invoker, Invoking, NotHosted, RequestSteps,
};
use asyncsteps_support::client::{Answer, Connection, post_with};
use asyncsteps_support::conform;
use asyncsteps_support::front::Front;
use asyncsteps_support::server::TestServer;
use asyncsteps_transport::http;
use expect_test::{Expect, expect};
use serde_json::json;

/// The media type of problem details.
const PROBLEM: Option<&str> = Some("application/problem+json");

fn status_of(code: &str) -> Option<u16> {
    match code {
        "OTHER_ERROR" => Some(409),
        // no status of an error
        "MyError" => Some(204),
        _ => None,
    }
}

fn problems(service: http::Service) -> http::Service {
    service.problem_details(status_of)
}

fn get(host: &TestServer, path: &str, headers: &str) -> Answer {
    let request = format!("GET /ftn/{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    Connection::open(host.address).send(request.as_bytes()).receive()
}

/// Gets each path with its headers, and compares status, challenge and problem; where the path has an
/// operation, its document must have said so.
#[track_caller]
fn check(host: &TestServer, calls: &[(&str, &str)], expected: Expect) {
    let service = problems(http::service("/ftn/", host.executor.clone()));
    let document = http::openapi(&service, "Problems", "1").document();
    let mut out = String::new();
    for (path, headers) in calls {
        let answer = get(host, path, headers);
        assert_eq!(answer.header("content-type"), PROBLEM, "{path}");
        let mut problem = answer.json();
        let said = problem.as_object_mut().expect("an object");
        assert_eq!(said.remove("status"), Some(answer.status().into()), "{path}");
        let operation = format!("/ftn/{}", path.split('?').next().unwrap_or_default());
        let responses = &document["paths"][operation]["get"]["responses"];
        if responses.is_object() {
            let content = &responses[answer.status().to_string()]["content"];
            let schema = &content["application/problem+json"]["schema"]["$ref"];
            let schema =
                schema.as_str().and_then(|it| document.pointer(it.trim_start_matches('#')));
            let codes = schema.and_then(|it| it["properties"]["code"]["enum"].as_array());
            let is_said = codes.is_some_and(|codes| codes.contains(&said["code"]));
            assert!(is_said, "{path}: {} {said:?} is not in {responses}", answer.status());
        }
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        let line = format!("{path} {} {challenge}", answer.status());
        writeln!(out, "{}\n    {problem}", line.trim_end()).expect("a string takes all");
    }
    expected.assert_eq(&out);
}

fn each_code_has_its_status(front: Front) {
    let host = front.start_as(1, conform::executor, problems);
    check(
        &host,
        &[
            ("conform.main/1.2/echo", ""),
            ("conform.main/1.2/echo?msg=%", ""),
            ("conform.main/1/answer", ""),
            ("conform.main/1.2/noSuch", ""),
            ("conform.main/2.0/answer", ""),
            ("no.such/1.0/f", ""),
            ("conform.main/1.2/missingImpl", ""),
            ("conform.bidi/1.0/acks", ""),
            ("conform.secret/1.0/whoami", ""),
            ("conform.secret/1.0/whoami/user%3Awrong", ""),
            ("conform.main/1.2/priv", ""),
            ("conform.main/1.2/priv", "Authorization: Basic dXNlcjpwYXNz\r\n"),
            ("conform.main/1.2/priv/user%3Apass", ""),
            ("conform.secure/1.0/hello", ""),
            ("conform.signed/1.0/sum?a=1&b=2", "Authorization: Basic dXNlcjpwYXNz\r\n"),
            ("conform.main/1.2/answer", "Origin: https://stranger.example\r\n"),
            ("conform.main/1.2/fail?code=Unauthorized", ""),
            ("conform.main/1.2/fail?code=MyError", ""),
            ("conform.main/1.2/fail?code=OTHER_ERROR&later=true", ""),
            ("conform.main/1.2/download?n=-1", ""),
            ("conform.main/1.2/fail?code=DefenseRejected", ""),
            ("conform.main/1.2/fail?code=CommError", ""),
            ("conform.main/1.2/crash", ""),
        ],
        expect![[r#"
            conform.main/1.2/echo 400
                {"code":"InvalidRequest","detail":"Missing parameter: conform.main:1.2:echo(msg)","title":"Bad Request"}
            conform.main/1.2/echo?msg=% 400
                {"code":"InvalidRequest","detail":"Invalid URL: percent-encoding","title":"Bad Request"}
            conform.main/1/answer 400
                {"code":"InvalidRequest","detail":"Invalid req.f (version)","title":"Bad Request"}
            conform.main/1.2/noSuch 404
                {"code":"InvalidRequest","detail":"Unknown interface function: noSuch","title":"Not Found"}
            conform.main/2.0/answer 404
                {"code":"NotSupportedVersion","detail":"Different major version: conform.main:2","title":"Not Found"}
            no.such/1.0/f 404
                {"code":"UnknownInterface","detail":"Unknown interface: no.such","title":"Not Found"}
            conform.main/1.2/missingImpl 501
                {"code":"NotImplemented","detail":"Missing function implementation","title":"Not Implemented"}
            conform.bidi/1.0/acks 400
                {"code":"InvalidRequest","detail":"Bi-Direct Channel is required","title":"Bad Request"}
            conform.secret/1.0/whoami 401 Basic realm="FutoIn", charset="UTF-8"
                {"code":"SecurityError","detail":"Anonymous not allowed","title":"Unauthorized"}
            conform.secret/1.0/whoami/user%3Awrong 401 Basic realm="FutoIn", charset="UTF-8"
                {"code":"SecurityError","detail":"Basic Auth Verification Failed","title":"Unauthorized"}
            conform.main/1.2/priv 401 Basic realm="FutoIn", charset="UTF-8"
                {"code":"PleaseReauth","detail":"PrivilegedOps","title":"Unauthorized"}
            conform.main/1.2/priv 403
                {"code":"PleaseReauth","detail":"PrivilegedOps","title":"Forbidden"}
            conform.main/1.2/priv/user%3Apass 403
                {"code":"PleaseReauth","detail":"PrivilegedOps","title":"Forbidden"}
            conform.secure/1.0/hello 403
                {"code":"SecurityError","detail":"Insecure channel","title":"Forbidden"}
            conform.signed/1.0/sum?a=1&b=2 403
                {"code":"SecurityError","detail":"Message Signature is required","title":"Forbidden"}
            conform.main/1.2/answer 403
                {"code":"SecurityError","detail":"Origin is not allowed","title":"Forbidden"}
            conform.main/1.2/fail?code=Unauthorized 403
                {"code":"Unauthorized","detail":"Details of Unauthorized","title":"Forbidden"}
            conform.main/1.2/fail?code=MyError 422
                {"code":"MyError","detail":"Details of MyError","title":"Unprocessable Entity"}
            conform.main/1.2/fail?code=OTHER_ERROR&later=true 409
                {"code":"OTHER_ERROR","detail":"Details of OTHER_ERROR","title":"Conflict"}
            conform.main/1.2/download?n=-1 422
                {"code":"MyError","detail":"Negative size","title":"Unprocessable Entity"}
            conform.main/1.2/fail?code=DefenseRejected 429
                {"code":"DefenseRejected","detail":"Details of DefenseRejected","title":"Too Many Requests"}
            conform.main/1.2/fail?code=CommError 500
                {"code":"InternalError","detail":"Not expected error","title":"Internal Server Error"}
            conform.main/1.2/crash 500
                {"code":"InternalError","detail":"Not expected error","title":"Internal Server Error"}
        "#]],
    );
    let result = get(&host, "conform.main/1.2/answer", "");
    assert_eq!((result.status(), result.json()), (200, json!({ "r": 42 })));
}

fn a_body_that_is_too_large_is_a_problem(front: Front) {
    let host = front.start_as(1, conform::executor, problems);
    // for its function, and for all of them
    for (size, detail) in
        [(70_000, "Request size has exceeded the limit"), (3 << 20, "Payload Too Large")]
    {
        let body = json!({ "msg": "x".repeat(size) }).to_string();
        let headers = "Content-Type: application/json\r\n";
        let call = post_with("/ftn/conform.main/1.2/echo", headers, body.as_bytes());
        let mut client = Connection::open(host.address);
        let _ = client.try_send(&call);
        let answer = client.receive();
        assert_eq!(answer.header("content-type"), PROBLEM);
        let problem = json!({
            "title": "Payload Too Large", "status": 413, "code": "InvalidRequest", "detail": detail,
        });
        assert_eq!((answer.status(), answer.json()), (413, problem));
    }
}

fn without_users_no_credentials_are_asked_for(front: Front) {
    let file = json!({
        "iface": "test.users", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "f": { "result": "any", "throws": ["UnknownThing", "Other"] } },
    });
    let executor = move || {
        let source = Source::texts([("test.users-1.0-iface.json", file.to_string())]);
        let definition = Loader::new([source]).load(&"test.users:1.0".parse().expect("a name"));
        let executor = Executor::builder().interface(definition.expect("it is one"), |functions| {
            functions.add("f", &Template::build(|_| {}));
        });
        executor.build().expect("a right configuration")
    };
    let host = front.start_as(1, executor, problems);
    check(
        &host,
        &[("test.users/1.0/f", ""), ("test.users/1.0/f", "Authorization: Basic dXNlcjpwYXNz\r\n")],
        expect![[r#"
            test.users/1.0/f 403
                {"code":"SecurityError","detail":"Anonymous not allowed","title":"Forbidden"}
            test.users/1.0/f 403
                {"code":"SecurityError","detail":"Basic Auth Verification Failed","title":"Forbidden"}
        "#]],
    );
    // nobody can call it, so only who asks for all reads of it
    let openapi = http::openapi(&problems(http::service("/ftn/", host.executor.clone())), "", "");
    assert_eq!(openapi.document()["paths"], json!({}));
    let responses =
        &openapi.document_of_all()["paths"]["/ftn/test.users/1.0/f"]["get"]["responses"];
    let statuses: Vec<_> = responses.as_object().expect("an object").keys().collect();
    assert_eq!(statuses, ["200", "400", "403", "404", "422", "429", "431", "500"]);
}

fn the_challenge_names_what_the_security_provider_takes(front: Front) {
    let executor = || {
        Executor::builder()
            .security(JwtProvider::new("https://id.test/", "shop", JwtKeys::default()))
            .interface(conform::definition("conform.secret:1.0"), |functions| {
                functions.others_not_implemented();
                functions.add("whoami", &conform::whoami());
            })
            .build()
            .expect("a right configuration")
    };
    let host = front.start_as(1, executor, problems);
    check(
        &host,
        &[
            ("conform.secret/1.0/whoami", ""),
            ("conform.secret/1.0/whoami", "Authorization: Bearer forged\r\n"),
        ],
        expect![[r#"
            conform.secret/1.0/whoami 401 Bearer realm="FutoIn"
                {"code":"SecurityError","detail":"Anonymous not allowed","title":"Unauthorized"}
            conform.secret/1.0/whoami 401 Bearer realm="FutoIn"
                {"code":"SecurityError","detail":"Token is not valid","title":"Unauthorized"}
        "#]],
    );
}

fn other_methods_are_problems_too(front: Front) {
    let set_up = |service| {
        let service: http::Service = problems(service);
        service.cors(http::Cors::any()).get_calls(|function| function.func() == "answer")
    };
    let host = front.start_as(1, conform::executor, set_up);
    let mut out = String::new();
    for (method, path) in [
        ("DELETE", "conform.main/1.2/answer"),
        ("GET", "conform.main/1.2/zero"),
        ("GET", "conform.main/1.2/noSuch"),
        ("DELETE", "conform.main/1.2/noSuch"),
        ("DELETE", "conform.main/2.0/answer"),
        ("GET", "no.such/1.0/f"),
        ("DELETE", "conform.main/1/answer"),
        // nobody learns what a private interface has
        ("GET", "conform.secret/1.0/whoami"),
        ("GET", "conform.secret/1.0/noSuch"),
    ] {
        let request = format!("{method} /ftn/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = Connection::open(host.address).send(request.as_bytes()).receive();
        assert_eq!(answer.header("content-type"), PROBLEM, "{path}");
        let (status, allowed) = (answer.status(), answer.header("allow").unwrap_or_default());
        let (code, detail) = (&answer.json()["code"], &answer.json()["detail"]);
        let line = format!("{method} {path}: {status} {code} {detail} {allowed}");
        writeln!(out, "{}", line.trim_end()).expect("a string takes all");
    }
    expect![[r#"
        DELETE conform.main/1.2/answer: 405 "InvalidRequest" "Methods: GET, HEAD, POST, OPTIONS" GET, HEAD, POST, OPTIONS
        GET conform.main/1.2/zero: 405 "InvalidRequest" "Methods: POST, OPTIONS" POST, OPTIONS
        GET conform.main/1.2/noSuch: 404 "InvalidRequest" "Unknown interface function: noSuch"
        DELETE conform.main/1.2/noSuch: 404 "InvalidRequest" "Unknown interface function: noSuch"
        DELETE conform.main/2.0/answer: 404 "NotSupportedVersion" "Different major version: conform.main:2"
        GET no.such/1.0/f: 404 "UnknownInterface" "Unknown interface: no.such"
        DELETE conform.main/1/answer: 400 "InvalidRequest" "Invalid req.f (version)"
        GET conform.secret/1.0/whoami: 405 "InvalidRequest" "Methods: POST, OPTIONS" POST, OPTIONS
        GET conform.secret/1.0/noSuch: 405 "InvalidRequest" "Methods: POST, OPTIONS" POST, OPTIONS
    "#]]
    .assert_eq(&out);
}

fn messages_keep_the_status_200(front: Front) {
    let host = front.start_as(1, conform::executor, problems);
    for code in ["MyError", "OTHER_ERROR", "Unauthorized", "NotDeclared"] {
        let message = json!({ "f": "conform.main:1.2:fail", "p": { "code": code } }).to_string();
        let answer = Connection::open(host.address).post(message.as_bytes());
        assert_eq!(answer.status(), 200, "{code}");
        assert_eq!(answer.header("content-type"), Some("application/futoin+json"));
        assert!(answer.json()["e"].is_string(), "{code}");
    }
}

fn a_problem_is_signed_as_the_message_would_be(front: Front) {
    let host = front.start_as(1, conform::executor, problems);
    let (key, md5) = (MacKey::new(b"MyLongTestSecretKey"), MacAlgorithm::Md5);
    let sign = |base: &str| key.sign(md5, base.as_bytes());
    let mac = sign("f:conform.signed:1.0:sum;p:a:1;b:x;;").replace('/', "%2F").replace('+', "%2B");
    let answer =
        get(&host, &format!("conform.signed/1.0/sum/-hmac:hmacuser:MD5:{mac}?a=1&b=x"), "");
    let detail = r#"Type mismatch for parameter: conform.signed:1.0:sum(b) = "x""#;
    let sec = sign(&format!("e:InvalidRequest;edesc:{detail};"));
    let problem = json!({
        "title": "Bad Request", "status": 400, "code": "InvalidRequest", "detail": detail, "sec": sec,
    });
    assert_eq!((answer.status(), answer.json()), (400, problem));
}

/// Errors that only invokers raise, as an interface can declare them, and a limit of a size.
fn declared() -> Executor {
    let file = json!({
        "iface": "test.codes", "version": "1.0", "ftn3rev": "1.9", "requires": ["AllowAnonymous"],
        "funcs": { "fail": {
            "params": { "code": "string" }, "result": "boolean", "maxreqsize": "100B",
            "throws": ["ConnectError", "CommError", "InvokerError", "Timeout", "OutcomeUnknown"],
        } },
    });
    let source = Source::texts([("test.codes-1.0-iface.json", file.to_string())]);
    let fail = Template::build(|asi| {
        asi.add(|asi, ()| {
            let code: String = asi.param("code")?;
            asi.error(code, "")
        });
    });
    let definition = Loader::new([source]).load(&"test.codes:1.0".parse().expect("a name"));
    let limits = asyncsteps_core::sync::limiter::Options {
        rate: 6,
        period: Duration::from_secs(3600),
        ..Default::default()
    };
    Executor::builder()
        .client_limits(ClientLimits::new().define("six", limits).others("six"))
        .interface(definition.expect("a definition"), |functions| {
            functions.add("fail", &fail);
        })
        .build()
        .expect("a right configuration")
}

fn errors_of_other_services_and_limits_have_a_status(front: Front) {
    let host = front.start_as(1, declared, problems);
    let long = format!("test.codes/1.0/fail?code={}", "x".repeat(100));
    let calls = ["ConnectError", "CommError", "InvokerError", "Timeout", "OutcomeUnknown"]
        .map(|code| format!("test.codes/1.0/fail?code={code}"));
    let calls: Vec<_> =
        calls.iter().chain([&long, &long]).map(|path| (path.as_str(), "")).collect();
    check(
        &host,
        &calls,
        expect![[r#"
            test.codes/1.0/fail?code=ConnectError 503
                {"code":"ConnectError","detail":"","title":"Service Unavailable"}
            test.codes/1.0/fail?code=CommError 502
                {"code":"CommError","detail":"","title":"Bad Gateway"}
            test.codes/1.0/fail?code=InvokerError 500
                {"code":"InvokerError","detail":"","title":"Internal Server Error"}
            test.codes/1.0/fail?code=Timeout 504
                {"code":"Timeout","detail":"","title":"Gateway Timeout"}
            test.codes/1.0/fail?code=OutcomeUnknown 504
                {"code":"OutcomeUnknown","detail":"","title":"Gateway Timeout"}
            test.codes/1.0/fail?code=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx 431
                {"code":"InvalidRequest","detail":"Request size has exceeded the limit","title":"Request Header Fields Too Large"}
            test.codes/1.0/fail?code=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx 429
                {"code":"DefenseRejected","detail":"Throttle queue limit","title":"Too Many Requests"}
        "#]],
    );
}

/// Calls that end as the names of their functions say, or not at all.
struct Way;

impl Invoker for Way {
    fn invoke(&self, call: Invocation) -> Invoking {
        let answered = FailedCall::new(call.function.as_str());
        let error = match call.function.func() {
            "away" => Error::with_info(codes::CONNECT_ERROR, "10.0.0.7 refuses connections"),
            "refused" => Error::new(codes::CONNECT_ERROR).with_cause(NotHosted::new()),
            "late" => Error::new(codes::TIMEOUT),
            "lost" => Error::with_info(codes::COMM_ERROR, "10.0.0.7 was lost").outcome_unknown(),
            "answered" => Error::with_info("OutOfStock", "none is left").with_cause(answered),
            "hangs" => return Box::pin(pending()),
            _ => Error::new(codes::INVOKER_ERROR),
        };
        Box::pin(async { Err(error) })
    }
}

fn forwards() -> Executor {
    Executor::builder()
        .forward(Way)
        .request_timeout(Duration::from_millis(50))
        .build()
        .expect("a right configuration")
}

fn callers_of_a_front_learn_what_is_known_of_their_requests(front: Front) {
    let host = front.start_as(1, forwards, problems);
    let functions = ["away", "refused", "late", "lost", "answered", "hangs", "other"];
    let paths = functions.map(|function| format!("a.b/1.0/{function}"));
    let calls: Vec<_> = paths.iter().map(|path| (path.as_str(), "")).collect();
    check(
        &host,
        &calls,
        expect![[r#"
            a.b/1.0/away 503
                {"code":"ConnectError","detail":"The request was not carried out","title":"Service Unavailable"}
            a.b/1.0/refused 404
                {"code":"UnknownInterface","detail":"Unknown interface: a.b","title":"Not Found"}
            a.b/1.0/late 503
                {"code":"ConnectError","detail":"The request was not carried out","title":"Service Unavailable"}
            a.b/1.0/lost 502
                {"code":"CommError","detail":"It is not known whether the request was carried out","title":"Bad Gateway"}
            a.b/1.0/answered 422
                {"code":"OutOfStock","detail":"none is left","title":"Unprocessable Entity"}
            a.b/1.0/hangs 502
                {"code":"CommError","detail":"It is not known whether the request was carried out","title":"Bad Gateway"}
            a.b/1.0/other 500
                {"code":"InternalError","detail":"Not expected error","title":"Internal Server Error"}
        "#]],
    );
    for (path, seconds) in [(&paths[0], Some("1")), (&paths[3], None)] {
        assert_eq!(get(&host, path, "").header("retry-after"), seconds, "{path}");
    }
}

asyncsteps_support::on_both_fronts! {
    callers_of_a_front_learn_what_is_known_of_their_requests,
    each_code_has_its_status,
    a_body_that_is_too_large_is_a_problem,
    without_users_no_credentials_are_asked_for,
    other_methods_are_problems_too,
    the_challenge_names_what_the_security_provider_takes,
    messages_keep_the_status_200,
    a_problem_is_signed_as_the_message_would_be,
    errors_of_other_services_and_limits_have_a_status,
}
