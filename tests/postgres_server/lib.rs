//! A PostgreSQL server of a test's own, with its data and its socket in a folder for temporary files.
#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "helpers of tests panic to fail the test")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::{env, fs};

use tokio_postgres::Config;

/// Tells the servers of one process apart.
static SERVERS: AtomicU32 = AtomicU32::new(0);

/// A server that ends when this is dropped; its data go with it.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    folder: PathBuf,
    /// Who runs it: root may not.
    user: Option<u32>,
    port: u16,
    running: Option<Running>,
    /// Its folder, and PgBouncer itself.
    pooler: Option<(PathBuf, Running)>,
}

/// The first of its processes.
#[derive(Debug)]
struct Running {
    child: Child,
    /// Reads what they say, until the last of them has ended.
    log: JoinHandle<()>,
}

impl Running {
    /// Waits until it says that it is ready.
    fn start(mut command: Command, ready: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines =
            BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let mut told = String::new();
        let is_ready = lines.by_ref().any(|line| {
            told += &line;
            line.contains(ready)
        });
        assert!(is_ready, "it does not start: {told}");
        // what it says later is read, so that it does not wait for a reader
        let log = thread::spawn(move || lines.for_each(drop));
        Self { child, log }
    }

    /// Ends it by a signal, and waits until its other processes have ended.
    fn end(self, signal: &str) {
        let Self { mut child, log } = self;
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "it can be told to end");
        child.wait().expect("it ended");
        // each of them has the pipe
        log.join().expect("it only reads");
    }
}

impl Server {
    /// Starts one; without PostgreSQL, says that the test is left out.
    #[expect(clippy::print_stdout, reason = "a test that is left out says so")]
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("PostgreSQL is not installed here: this test is left out");
            return None;
        };
        let mut server = Self::new(programs);
        let mut init = server.program("initdb");
        init.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", "-U", "journal"]);
        done(init.arg("-D").arg(server.folder.join("data")));
        server.run();
        Some(server)
    }

    fn new(programs: PathBuf) -> Self {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("postgres-of-test-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let is_root = fs::metadata(&folder).expect("it is there").uid() == 0;
        let user = is_root.then(postgres_user);
        if user.is_some() {
            chown(&folder, user, user).expect("root may do so");
        }
        Self { programs, folder, user, port: 5432, running: None, pooler: None }
    }

    /// Another server, which follows this one and can be read.
    #[must_use]
    pub fn standby(&self) -> Self {
        let mut standby = Self::new(self.programs.clone());
        standby.follow(self);
        standby
    }

    /// Begins anew as a standby of another server, where it was.
    pub fn follow(&mut self, primary: &Self) {
        self.end("KILL");
        let data = self.folder.join("data");
        // there is none before the first time
        let _ = fs::remove_dir_all(&data);
        let mut copy = primary.program("pg_basebackup");
        copy.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf"]);
        done(copy.arg("-D").arg(data));
        self.run();
    }

    /// Begins anew with TLS on a [port](Self::port) of `localhost`. An authority of its own, `root.crt`, has signed its
    /// certificate and that of a client with the name of the user, `client.crt`; `other.crt` is another authority.
    pub fn serve_tls(&mut self) {
        self.end("INT");
        self.port = TcpListener::bind("127.0.0.1:0")
            .and_then(|it| it.local_addr())
            .expect("a port is free")
            .port();
        self.certificate("root", "authority", None);
        self.certificate("other", "other authority", None);
        self.certificate("server", "localhost", Some("root"));
        self.certificate("client", "journal", Some("root"));
        let file = |name| self.file(name).display().to_string();
        let settings = format!(
            "ssl = on\nssl_ca_file = '{}'\nssl_cert_file = '{}'\nssl_key_file = '{}'\n\
             listen_addresses = 'localhost'\n",
            file("root.crt"),
            file("server.crt"),
            file("server.key"),
        );
        fs::write(self.folder.join("data/postgresql.auto.conf"), settings).expect("a file");
        self.run();
    }

    /// The port of its socket, and of `localhost` if it is [there](Self::serve_tls).
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file of this name in its folder, such as a certificate.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a certificate with its key.
    pub fn certificate(&self, file: &str, name: &str, signed_by: Option<&str>) {
        let mut openssl = self.command("openssl");
        openssl.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt"]);
        openssl.args(["ec_paramgen_curve:P-256", "-days", "2", "-subj"]).arg(format!("/CN={name}"));
        openssl.args(["-keyout", &format!("{file}.key"), "-out", &format!("{file}.crt")]);
        if let Some(signer) = signed_by {
            openssl.args(["-CA", &format!("{signer}.crt"), "-CAkey", &format!("{signer}.key")]);
            openssl.args(["-extensions", "usr_cert", "-addext"]);
            openssl.arg(format!("subjectAltName=DNS:{name}"));
        }
        done(&mut openssl);
    }

    /// A program of PostgreSQL for this server, such as `pg_dump`, in its folder.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = self.command(self.programs.join(name));
        command.env("PGHOST", &self.folder).env("PGPORT", self.port.to_string());
        command.env("PGUSER", "journal").env("PGDATABASE", "postgres");
        command
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Where it is, or its pooler.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config_in(self.front())
    }

    /// Where it is, whether it has a pooler or not.
    #[must_use]
    pub fn direct(&self) -> Config {
        self.config_in(&self.folder)
    }

    /// Where it is, or its pooler, as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        let folder = self.front().to_str().expect("a path of UTF-8").replace('/', "%2F");
        format!("postgres://journal@{folder}/postgres")
    }

    fn config_in(&self, folder: &Path) -> Config {
        let mut config = Config::new();
        config.host_path(folder).port(self.port).user("journal").dbname("postgres");
        config
    }

    fn front(&self) -> &Path {
        self.pooler.as_ref().map_or(&self.folder, |(folder, _)| folder)
    }

    /// Starts it, and waits until it takes connections.
    pub fn run(&mut self) {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
        command.arg("-p").arg(self.port.to_string());
        command.args(["-c", "logging_collector=off"]);
        if self.port == 5432 {
            command.args(["-c", "listen_addresses="]);
        }
        self.running = Some(Running::start(command, "ready to accept"));
    }

    /// Stops all of its processes where they are: connections stay open, and nothing is answered until it is
    /// [thawed](Self::thaw) or ended.
    pub fn freeze(&self) {
        self.signal_all("STOP");
    }

    /// Lets what was frozen go on.
    pub fn thaw(&self) {
        self.signal_all("CONT");
    }

    /// The first process is the first to stop, so that no other one begins.
    fn signal_all(&self, signal: &str) {
        let Some(running) = &self.running else { return };
        let first = running.child.id();
        let kill = |processes: &str| {
            // one that has just ended cannot be signalled
            let kill =
                Command::new("kill").arg("-s").arg(signal).args(processes.split(' ')).status();
            assert!(kill.is_ok(), "processes can be signalled");
        };
        kill(&first.to_string());
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
        kill(children.expect("a list").trim_end());
    }

    /// Ends it by a signal, `KILL` or `INT`, which leaves no shared memory behind; and waits until its other
    /// processes have ended, beside which it would refuse to start.
    pub fn end(&mut self, signal: &str) {
        self.thaw();
        if let Some(running) = self.running.take() {
            running.end(signal);
        }
    }

    /// Puts PgBouncer in front of it, which pools by `session` or `transaction`, with up to so many connections. Without
    /// PgBouncer it says that the test is left out, and returns false.
    #[expect(clippy::print_stdout, reason = "a test that is left out says so")]
    #[must_use]
    pub fn pool(&mut self, pool_mode: &str, size: usize) -> bool {
        let program = Path::new("/usr/sbin/pgbouncer");
        if !program.is_file() {
            println!("PgBouncer is not installed here: this test is left out");
            return false;
        }
        self.end_pooler();
        let folder = self.folder.join("pooler");
        fs::create_dir_all(&folder).expect("a folder");
        let (server, here) = (self.folder.display(), folder.display());
        let settings = format!(
            "[databases]\n* = host={server} user=journal\n[pgbouncer]\nunix_socket_dir = {here}\n\
             listen_port = 5432\nauth_type = any\nmax_client_conn = 1000\n\
             pool_mode = {pool_mode}\ndefault_pool_size = {size}\n\
             server_login_retry = 1\n"
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).expect("a file");
        if self.user.is_some() {
            chown(&folder, self.user, self.user).expect("root may do so");
        }
        let mut command = self.command(program);
        command.arg(file);
        self.pooler = Some((folder, Running::start(command, "process up")));
        true
    }

    fn end_pooler(&mut self) {
        if let Some((_, running)) = self.pooler.take() {
            running.end("TERM");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_pooler();
        self.end("INT");
        // what is left is in the folder for temporary files
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until a program has done its work.
pub fn done(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The folder with `postgres` and `initdb`.
fn programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = env::split_paths(&path).chain(debian.map(|version| version.path().join("bin")));
    let has_both =
        |folder: &Path| ["postgres", "initdb"].iter().all(|program| folder.join(program).is_file());
    // Debian's links lead to the folder where the server finds its other files
    folders
        .filter(|folder| has_both(folder))
        .find_map(|folder| Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_owned()))
}

/// The number of the user `postgres`.
fn postgres_user() -> u32 {
    let output = Command::new("id").args(["-u", "postgres"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("a number");
    text.trim().parse().expect("root needs the user `postgres` to run PostgreSQL")
}
