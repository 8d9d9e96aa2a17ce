//! A NATS server of a test, on a free port of this machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

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

    /// Two servers of one cluster.
    pub(crate) fn cluster(options: &[&str]) -> [Self; 2] {
        let ports = [NatsPort::new(), NatsPort::new()].map(|port| port.text());
        let [one, other] = [0, 1].map(|at| format!("nats://127.0.0.1:{}", ports[at]));
        let member = |listens: &str, knows: &str| {
            let member = ["--cluster", listens, "--cluster_name", "c", "--routes", knows];
            Self::start(&[&member, options].concat())
        };
        [member(&one, &other), member(&other, &one)]
    }

    /// Stops the server as a machine that hangs does; it goes on by `-CONT`.
    pub(crate) fn stop(&self) {
        stop(&self.process);
    }

    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.process, signal);
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("it is a child").is_some()
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

/// Sends a signal to a process.
pub(crate) fn send_signal(process: &Child, signal: &str) {
    let pid = process.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().expect("there is kill");
    assert!(sent.success(), "kill {signal} {pid}");
}

/// Stops a process; none of its threads runs any more when this returns.
pub(crate) fn stop(process: &Child) {
    send_signal(process, "-STOP");
    let is_stopped = || {
        let threads = fs::read_dir(format!("/proc/{}/task", process.id()));
        threads.expect("the process is there").flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // the state comes behind the name, which is in parentheses
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" T"))
        })
    };
    while !is_stopped() {
        thread::yield_now();
    }
}
