//! How the journal and the cluster dial PostgreSQL servers.
//!
//! A [`Dial`] asks all hosts of a URL at once, with the secrets that are in their files at that time, and waits a bounded
//! time for a server that says nothing. What a session needs is set after its begin and read back, because a pooler in
//! front of the server takes no other settings. [`is_lost`] says after which answers a session is of no use any more.
#![forbid(unsafe_code)]

mod libpq;
mod passfile;
mod sequences;
mod settings;
mod tls;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{select_ok, try_join};
use futures_util::{FutureExt as _, TryFutureExt as _};
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

pub use libpq::{LibpqOptions, Verify, split_url};
use passfile::PassfileKey;
pub use sequences::mend_sequences;
use settings::Settings;
pub use tls::TlsError;

/// After this time without an answer a server counts as silent, unless an application says otherwise.
pub const SILENT_AFTER: Duration = Duration::from_secs(3);

/// Settings for sessions whose statements each have one way to their rows: an index, in the order of that. The server takes
/// it whatever it knows of the tables, and plans a statement once. Otherwise it would read a table as a whole that was
/// small or unknown when the session began, after a restore as well, until something analyzes it. A table without an index
/// for a statement is still read, at a cost that compiles no code for that.
pub const PLANS: [(&str, &str); 5] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// How long a host that takes no changes is left alone while another one is dialled.
const AGAIN: Duration = Duration::from_millis(100);

/// A client, and the connection that has to be read for it.
pub type Connected =
    (Client, Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>);

/// The server did not answer in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server did not answer within {0:?}")]
pub struct Silent(pub Duration);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "what is learned of a session depends on each")]
pub enum DialError {
    /// No host answered in time.
    #[error(transparent)]
    Silent(#[from] Silent),
    /// The file with the password cannot be read.
    #[error("the file with the password cannot be read")]
    Passfile(#[source] io::Error),
    /// The last host that answered refused the connection, and no line of the file with passwords is for it.
    #[error("the file with passwords has no line for the server")]
    NoLine(#[source] tokio_postgres::Error),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The last host that answered refused the connection, or takes no changes.
    #[error(transparent)]
    Refused(#[from] tokio_postgres::Error),
    /// What was set is not there later, or a notice does not arrive.
    #[error(
        "a pooler in front of the server does not keep sessions, since {0}: let it pool sessions, which is \
         `pool_mode = session` of PgBouncer, or dial the server itself"
    )]
    NotKept(String),
}

/// The servers of a URL, with the settings of each session. Of several hosts the first one counts that answers and takes
/// changes, unless the URL says otherwise by `target_session_attrs`.
#[derive(Clone, Debug)]
pub struct Dial {
    hosts: Vec<Config>,
    settings: Settings,
    options: LibpqOptions,
    silent_after: Duration,
}

impl Dial {
    /// The hosts of a configuration. `settings` are names and values, as the server shows them, that each session begins
    /// with. Files are read at each [`connect`](Self::connect). A host that says nothing for `silent_after` is given up.
    #[must_use]
    pub fn new(
        mut config: Config,
        options: LibpqOptions,
        settings: &[(&'static str, &str)],
        silent_after: Duration,
    ) -> Self {
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(10));
        }
        if options.verify != Verify::Nothing {
            config.ssl_mode(SslMode::Require);
        }
        Self { hosts: hosts(config), settings: Settings::new(settings), options, silent_after }
    }

    /// A connection to one of the hosts.
    ///
    /// # Errors
    /// See [`DialError`]. It takes no longer than `silent_after`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connections that it makes.
    pub async fn connect(&self) -> Result<Connected, DialError> {
        self.begin(&self.settings).await
    }

    /// Fails unless sessions are kept: a session that waits gets the notice of another one. A pooler that lends
    /// connections to the server for one transaction each has nowhere to send it, however many connections it has.
    ///
    /// # Errors
    /// [`DialError::NotKept`], or as for [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future ends the connections that it makes.
    pub async fn check_sessions(&self) -> Result<(), DialError> {
        // what is set would be found by others to whom a pooler lends the connection
        let nothing = Settings::default();
        let (waits, other) = try_join(self.begin(&nothing), self.begin(&nothing)).await?;
        settings::is_notified(waits, other, self.silent_after).await
    }

    async fn begin(&self, settings: &Settings) -> Result<Connected, DialError> {
        let mut hosts = self.hosts.clone();
        let mut has_line = true;
        if let Some(file) = &self.options.passfile {
            let file = std::fs::read_to_string(file).map_err(DialError::Passfile)?;
            for config in hosts.iter_mut().filter(|it| it.get_password().is_none()) {
                let password = PassfileKey::of(config).password_in(&file);
                has_line &= password.is_some();
                password.map(|password| config.password(password));
            }
        }
        let tls = self.options.tls()?;
        let ask = async |config: &Config| settings.set(config.connect(tls.clone()).await?).await;
        let refused = AtomicUsize::new(0);
        let dial = async |config: &Config| {
            let mut answer = ask(config).await;
            refused.fetch_add(usize::from(answer.is_err()), Ordering::Relaxed);
            // while others are silent, this one may begin to take changes
            while answer.is_err() && refused.load(Ordering::Relaxed) < hosts.len() {
                sleep(AGAIN).await;
                answer = ask(config).await;
            }
            answer
        };
        let dials = hosts.iter().map(|config| dial(config).boxed());
        let connected = self.within(select_ok(dials).map_ok(|(connected, _)| connected)).await;
        match connected {
            Err(DialError::Refused(error)) if !has_line => Err(DialError::NoLine(error)),
            connected => connected,
        }
    }

    /// Waits for an answer as long as a server may be silent.
    ///
    /// # Errors
    /// Those of the request, or [`Silent`].
    ///
    /// # Cancel safety
    /// That of the request, which is dropped when the server is silent.
    pub async fn within<T, E: From<Silent>>(
        &self,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let answer = timeout(self.silent_after, request).await;
        answer.unwrap_or_else(|_| Err(Silent(self.silent_after).into()))
    }
}

/// Whether a session that has got this answer is lost, or was not begun: the server ends it or has no room for it, it takes
/// no password that was just rotated, or has forgotten a statement that was prepared.
#[must_use]
pub fn is_lost(answer: &DbError) -> bool {
    let code = answer.code().code();
    matches!(answer.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        // poolers do not always say how severe an error is
        || ["57P", "08", "28", "26000"].iter().any(|class| code.starts_with(class))
        // a "cached plan" whose tables have changed
        || code == "0A000" && answer.routine() == Some("RevalidateCachedQuery")
}

/// A configuration for each host: a server that is silent holds up no other.
fn hosts(config: Config) -> Vec<Config> {
    let mut hosts = each_host(config);
    for config in &mut hosts {
        match (config.get_hosts().first(), config.get_hostaddrs().first()) {
            // PostgreSQL has no TLS there
            #[cfg(unix)]
            (Some(Host::Unix(_)), _) => _ = config.ssl_mode(SslMode::Disable),
            // TLS wants a name
            (None, Some(address)) => _ = config.host(address.to_string()),
            _ => {}
        }
    }
    hosts
}

fn each_host(config: Config) -> Vec<Config> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    if count < 2 {
        return vec![config];
    }
    let alone = |at: usize| {
        let mut alone = without_hosts(&config);
        match config.get_hosts().get(at) {
            Some(Host::Tcp(name)) => _ = alone.host(name),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => _ = alone.host_path(folder),
            None => {}
        }
        config.get_hostaddrs().get(at).map(|address| alone.hostaddr(*address));
        let port = config.get_ports().get(at).or_else(|| config.get_ports().first());
        port.map(|port| alone.port(*port));
        alone
    };
    (0..count).map(alone).collect()
}

/// The rest of a configuration that has several hosts.
fn without_hosts(config: &Config) -> Config {
    let mut rest = Config::new();
    config.get_user().map(|user| rest.user(user));
    config.get_password().map(|password| rest.password(password));
    config.get_dbname().map(|name| rest.dbname(name));
    config.get_options().map(|options| rest.options(options));
    config.get_application_name().map(|name| rest.application_name(name));
    config.get_connect_timeout().map(|time| rest.connect_timeout(*time));
    config.get_tcp_user_timeout().map(|time| rest.tcp_user_timeout(*time));
    config.get_keepalives_interval().map(|time| rest.keepalives_interval(time));
    config.get_keepalives_retries().map(|count| rest.keepalives_retries(count));
    rest.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    rest.ssl_mode(config.get_ssl_mode()).channel_binding(config.get_channel_binding());
    let given = config.get_target_session_attrs();
    let is_any = given == TargetSessionAttrs::Any;
    rest.target_session_attrs(if is_any { TargetSessionAttrs::ReadWrite } else { given });
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_dialled_alone_and_has_to_take_changes() {
        let url = "postgres://ann:secret@one:1,two:2/shop?application_name=till&connect_timeout=7";
        let hosts = hosts(url.parse().expect("a URL"));
        let places = hosts.iter().map(|it| (it.get_hosts().to_vec(), it.get_ports().to_vec()));
        let expected = [("one", 1), ("two", 2)]
            .map(|(host, port)| (vec![Host::Tcp(host.to_owned())], vec![port]));
        assert_eq!(places.collect::<Vec<_>>(), expected);
        for host in hosts {
            let mut whole: Config = url.parse().expect("a URL");
            whole.target_session_attrs(TargetSessionAttrs::ReadWrite);
            let rest = |config: &Config| format!("{:?}", without_hosts(config));
            assert_eq!(rest(&host), rest(&whole));
            assert_eq!(host.get_password(), Some("secret".as_bytes()));
            assert_eq!(host.get_connect_timeout(), Some(&Duration::from_secs(7)));
        }
        let alone = super::hosts("postgres://ann@one/shop".parse().expect("a URL"));
        assert_eq!(alone[0].get_target_session_attrs(), TargetSessionAttrs::Any);
    }
}
