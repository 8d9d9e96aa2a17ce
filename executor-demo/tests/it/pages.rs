//! The promise: figures, probes and the console are served beside the functions.

use std::net::SocketAddr;

use asyncsteps_support::client::Connection;
use asyncsteps_support::shop::{Data, Program};
use asyncsteps_support::ws::Socket;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    get_as(&address.to_string(), address, path)
}

/// The answer to a request with this `Host`.
pub(crate) fn get_as(host: &str, address: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = Connection::open(address);
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes());
    let answer = connection.receive();
    (answer.status(), answer.text().to_owned())
}

#[test]
fn pages_are_served_beside_the_functions() {
    let data = Data::new();
    let program = Program::start(PROGRAM, &data);
    let ping = get(program.address, "/ftn/futoin.anonping/1.0/ping?echo=1");
    assert_eq!(ping, (200, r#"{"r":{"echo":1}}"#.to_owned()));
    let (status, figures) = get(program.address, "/metrics");
    assert_eq!(status, 200);
    let of_ping =
        r#"asyncsteps_request_duration_seconds_count{function="futoin.anonping:1.0:ping"} 1"#;
    for line in [of_ping, "asyncsteps_ready 1.0"] {
        assert!(figures.lines().any(|other| other == line), "{line}");
    }
    // how many there are at this moment is up to the store
    let of_store = r#"shop_store_jobs{queue="write"} "#;
    assert!(figures.lines().any(|line| line.starts_with(of_store)), "{figures}");
    assert_eq!(get(program.address, "/health"), (200, r#"{"alive":true}"#.to_owned()));
    let ready = r#"{"ready":true,"reasons":[]}"#.to_owned();
    assert_eq!(get(program.address, "/ready"), (200, ready));
    let (status, page) = get(program.address, "/console");
    assert!(status == 200 && page.contains("<html"), "{status} {page}");
    let (status, page) = get(program.address, "/");
    let links = ["/console", "/docs", "/metrics"].map(|path| format!("href={path}>"));
    assert!(status == 200 && links.iter().all(|link| page.contains(link)), "{status} {page}");
    assert_eq!(get(program.address, "/console/nothing").0, 404);
    assert_eq!(get(program.address, "/nothing").0, 404);
    let _socket = Socket::open(program.address);
    let (_, figures) = get(program.address, "/metrics");
    let of_socket = r#"asyncsteps_connections{protocol="websocket"} 1.0"#;
    assert!(figures.lines().any(|line| line == of_socket), "{figures}");
}

#[test]
fn functions_and_figures_are_served_for_the_hosts_that_were_named_and_probes_for_all() {
    const PING: &str = "/ftn/futoin.anonping/1.0/ping?echo=1";
    // the hosts that are named, and one that is served
    for (named, served) in [(None, "localhost:1"), (Some("shop.example"), "Shop.Example:8080")] {
        let data = Data::new();
        let arguments: Vec<&str> =
            named.map(|host| ["--host", host]).into_iter().flatten().collect();
        let program = Program::start_with(PROGRAM, &data, &arguments);
        let status = |host, path| get_as(host, program.address, path).0;
        for path in [PING, "/metrics"] {
            assert_eq!(status(served, path), 200, "{path}");
            for foreign in ["rebound.example", "shop.example.org", "shop.example@rebound.example"] {
                assert_eq!(status(foreign, path), 403, "{path} of {foreign}");
            }
        }
        for path in ["/health", "/ready"] {
            assert_eq!(status("10.1.2.3:8080", path), 200, "{path}");
        }
        assert_eq!(status("rebound.example", "/console"), 403);
    }
}
