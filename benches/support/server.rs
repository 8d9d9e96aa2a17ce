//! A server in a process of its own, so that its processor time can be told from that of its client, and
//! what loads it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use tokio::sync::oneshot;

/// How many connections a client has.
pub(crate) const CONNECTIONS: u32 = 16;

/// This program, run as a server.
pub(crate) struct ServerProcess {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Runs this program with these arguments; it serves until its standard input ends.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let program = env::current_exe().expect("a program has a path");
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was started before");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { process, output }
    }

    /// The next address that it prints.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it says where it listens");
        line.trim_end().parse().expect("an address")
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The processor time that the server spends on so many requests.
    pub(crate) fn cpu_of(&self, requests: u32, load: &mut Load) -> Duration {
        let before = self.cpu();
        let done = load.run(requests);
        (self.cpu() - before) * requests / done
    }

    /// The processor time of all threads of the server.
    pub(crate) fn cpu(&self) -> Duration {
        let folder = format!("/proc/{}/task", self.id());
        let threads = fs::read_dir(folder).expect("Linux");
        let time = |thread: fs::DirEntry| -> Option<u64> {
            let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            schedstat.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(threads.flatten().filter_map(time).sum())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // it ends by itself
        let _ = self.process.wait();
    }
}

/// In the server: waits until the client ends.
pub(crate) async fn client_end() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    drop(end.await);
}

/// Connections that send the same bytes again and again.
pub(crate) struct Load {
    pub(crate) connections: Vec<TcpStream>,
    pub(crate) request: Vec<u8>,
    /// How many requests that is.
    batch: u32,
    /// Bytes of the answer to it.
    pub(crate) answer: Vec<u8>,
}

impl Load {
    pub(crate) fn http(address: SocketAddr, request: Vec<u8>) -> Self {
        Self::new((0..CONNECTIONS).map(|_| connect(address)).collect(), request, 1)
    }

    pub(crate) fn new(mut connections: Vec<TcpStream>, request: Vec<u8>, batch: u32) -> Self {
        // the length of an answer does not change
        let first = &mut connections[0];
        first.write_all(&request).expect("the server takes bytes");
        first.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket option");
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = first.read(&mut buffer) {
            answer.extend_from_slice(&buffer[..length]);
        }
        let text = String::from_utf8_lossy(&answer);
        assert_eq!(text.matches(r#"hi""#).count(), batch as usize, "{text}");
        first.set_read_timeout(None).expect("a socket option");
        Self { connections, request, batch, answer }
    }

    /// At least so many requests: the same on all connections, then all answers. Gives how many.
    pub(crate) fn run(&mut self, requests: u32) -> u32 {
        let round = self.batch * CONNECTIONS;
        let rounds = requests.div_ceil(round);
        for _ in 0..rounds {
            for connection in &mut self.connections {
                connection.write_all(&self.request).expect("the server takes bytes");
            }
            for connection in &mut self.connections {
                connection.read_exact(&mut self.answer).expect("the server answers");
            }
        }
        rounds * round
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).expect("the server listens");
    connection.set_nodelay(true).expect("a socket option");
    connection
}
