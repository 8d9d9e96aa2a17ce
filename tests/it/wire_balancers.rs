//! The promise: a balancer that keeps connections to a service gets an answer to each POST on them, also if it comes just
//! when the server has said that it keeps them no longer: nginx and haproxy answer one that is lost with 502, as it may have
//! been carried out.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use asyncsteps_core::{BodyResult, sleep};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor};
use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{message, post};
use asyncsteps_support::server::TestServer;
use asyncsteps_transport::http::ServerLimits;
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};

/// How long the server says that it keeps connections.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// How far around that requests come.
const AROUND: Duration = Duration::from_millis(20);

const CLIENTS: u32 = 250;
const ROUNDS: usize = 3;

/// A balancer in front of a server; it ends when it is dropped.
struct Balancer {
    process: Child,
    folder: PathBuf,
}

impl Balancer {
    /// Starts a program of Debian; nothing if it is not installed.
    fn start(program: &str, arguments: &[&str], configuration: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("{program}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let at = folder.to_str().expect("text");
        fs::write(folder.join("conf"), configuration.replace("$FOLDER", at)).expect("a file");
        let path = format!("/usr/sbin/{program}");
        let path = if fs::exists(&path).expect("a folder") { &path } else { program };
        let mut command = Command::new(path);
        command.args(arguments).current_dir(&folder).stdout(Stdio::null());
        let Ok(process) = command.spawn() else {
            skip(program);
            return None;
        };
        Some(Self { process, folder })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// A connection, once it listens.
    async fn connect(&self) -> UnixStream {
        let connected = async {
            loop {
                match UnixStream::connect(self.socket()).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, connected).await.expect("it listens")
    }
}

#[expect(clippy::print_stdout, reason = "the test says that it checks nothing")]
fn skip(what: &str) {
    println!("no {what} here: the test is left out");
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
        fs::remove_dir_all(&self.folder).expect("a folder");
    }
}

/// It takes a while, so that all clients have connections at once.
async fn hold(_: &Cx<(), ()>) -> BodyResult<i32> {
    sleep(Duration::from_millis(200)).await;
    Ok(7)
}

fn executor() -> Executor {
    let mut interface = Interface::new("test.balanced:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let builder = Executor::builder().service(interface, (), |functions| {
        functions.on("hold", hold);
    });
    builder.build().expect("it is right")
}

/// Sends a request, and returns the status of its answer; nothing if there is none.
async fn answer(stream: &mut UnixStream, request: &[u8]) -> Option<String> {
    stream.write_all(request).await.ok()?;
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let mut lines = head.lines();
            let status = lines.next()?.split(' ').nth(1)?.to_owned();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "))?;
            if body.len() >= length.parse::<usize>().ok()? {
                return Some(status);
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

/// What is answered to posts that come around the end of the time for which connections are kept, and the longest time from
/// an answer to the next post.
async fn answers(balancer: &Balancer) -> (Vec<Option<String>>, Duration) {
    let longest = Cell::new(Duration::ZERO);
    let request = post(&message("test.balanced:1.0:hold", &json!({})));
    let client = async |at: u32| {
        let mut stream = balancer.connect().await;
        let mut seen = vec![answer(&mut stream, &request).await];
        let pause = KEEP_ALIVE - AROUND + 2 * AROUND * at / CLIENTS;
        for _ in 0..ROUNDS {
            let answered = Instant::now();
            sleep_until(answered + pause).await;
            longest.set(longest.get().max(answered.elapsed()));
            seen.push(answer(&mut stream, &request).await);
        }
        seen
    };
    let answers = join_all((0..CLIENTS).map(client)).await.into_iter().flatten().collect();
    (answers, longest.get())
}

fn each_post_is_answered(start: impl Fn(&str) -> Option<Balancer>) {
    let limits = ServerLimits { keep_alive: KEEP_ALIVE, ..ServerLimits::default() };
    let host = TestServer::start_with(2, limits, None, executor, |service| service);
    let Some(balancer) = start(&host.address.to_string()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (answers, longest) = runtime.expect("a runtime").block_on(answers(&balancer));
    let mut seen = BTreeMap::<_, usize>::new();
    for status in &answers {
        *seen.entry(status.as_deref().unwrap_or("none")).or_default() += 1;
    }
    if longest > KEEP_ALIVE + KEEP_ALIVE / 2 {
        // no post came around the end
        return skip(&format!("machine that is idle enough ({longest:?})"));
    }
    assert_eq!(seen, BTreeMap::from([("200", answers.len())]));
    // it has kept them
    assert!(host.connections.open() > CLIENTS as usize / 2, "{:?}", host.connections);
}

#[test]
fn nginx_gets_an_answer_to_each_post() {
    each_post_is_answered(|server| {
        let configuration = format!(
            "daemon off; master_process off; pid $FOLDER/pid; error_log stderr;
            events {{ worker_connections 2048; }}
            http {{
                access_log off; keepalive_timeout 1h;
                client_body_temp_path $FOLDER/body; proxy_temp_path $FOLDER/proxy;
                fastcgi_temp_path $FOLDER/fastcgi; uwsgi_temp_path $FOLDER/uwsgi;
                scgi_temp_path $FOLDER/scgi;
                upstream shop {{ server {server}; keepalive 500; keepalive_timeout 1h; }}
                server {{
                    listen unix:$FOLDER/socket;
                    location / {{
                        proxy_pass http://shop; proxy_http_version 1.1;
                        proxy_set_header Connection \"\";
                    }}
                }}
            }}"
        );
        Balancer::start("nginx", &["-e", "stderr", "-p", ".", "-c", "conf"], &configuration)
    });
}

#[test]
fn haproxy_gets_an_answer_to_each_post() {
    each_post_is_answered(|server| {
        let configuration = format!(
            "global
                nbthread 1
            defaults
                mode http
                timeout connect 10s
                timeout client 1h
                timeout server 1h
            frontend pages
                bind unix@$FOLDER/socket
                default_backend shop
            backend shop
                http-reuse always
                server one {server} pool-purge-delay 1h\n"
        );
        Balancer::start("haproxy", &["-db", "-q", "-f", "conf"], &configuration)
    });
}
