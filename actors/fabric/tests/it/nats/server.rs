//! A NATS server of a test, on a free port of this machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use tokio::net::TcpSocket;

/// A server; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct NatsServer {
    process: Child,
    port: u16,
}

/// A port for a server that goes and comes back: no other process gets it meanwhile.
#[derive(Debug)]
pub(crate) struct NatsPort(TcpSocket);

impl NatsPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // a server may listen where this is bound
        socket.set_reuseaddr(true).expect("an option");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        Self(socket)
    }

    pub(crate) fn text(&self) -> String {
        self.0.local_addr().expect("it is bound").port().to_string()
    }
}

impl NatsServer {
    /// Starts a server on a free port.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_on("-1", options)
    }

    /// Starts a server on this port.
    pub(crate) fn start_on(port: &str, options: &[&str]) -> Self {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", port]).args(options);
        let started = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut process = started.expect("it is installed");
        let log = process.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        let mut port = None;
        for line in lines.by_ref() {
            if let Some((_, listens)) = line.split_once("for client connections on ") {
                port = listens.rsplit(':').next().and_then(|port| port.trim().parse().ok());
            }
            if line.contains("Server is ready") {
                break;
            }
        }
        // a server whose log is not read stops
        thread::spawn(move || lines.for_each(drop));
        Self { process, port: port.expect("it says where it listens") }
    }

    /// Whether a server can be started here.
    pub(crate) fn is_installed() -> bool {
        let version = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|version| version.success())
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // it may be gone already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
