//! The journal of the demo: it has the shelf, and makes orders and captures durable.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use asyncsteps::Executor;
use asyncsteps::durable::jobs::{Jobs, JobsFunction};
use asyncsteps::durable::{Durable, Node};
use asyncsteps::journal::memory::Memory;
#[cfg(feature = "postgres")]
use asyncsteps::journal::postgres::{self, Postgres};
use asyncsteps::journal::sqlite::{self, Sqlite};
use asyncsteps::security::SecurityLevel;

/// The name that a journal has for this program.
const PROGRAM: &str = concat!("executor-demo ", env!("CARGO_PKG_VERSION"));

/// How long a request is remembered after its end, with its key and its result.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an option of a program, not of a library")]
pub enum JournalPlace {
    /// In a SQLite file, for this process.
    File(PathBuf),
    /// In PostgreSQL, for several processes.
    #[cfg(feature = "postgres")]
    Postgres {
        /// The server.
        config: Box<postgres::Config>,
        /// What else the URL has.
        libpq: postgres::LibpqOptions,
    },
}

/// What a process has of a journal.
pub(crate) struct ShopJournal {
    pub(crate) durable: Durable,
    /// It outlives the process, and so do orders and captures. The shelf is in any journal.
    is_kept: bool,
}

impl ShopJournal {
    /// The journal in this place, where so many requests of a caller may wait.
    pub(crate) async fn open(place: &JournalPlace, waiting: u64) -> anyhow::Result<Self> {
        let durable = place.open().await?.waiting_per_caller(waiting);
        Ok(Self { durable: durable.remembers(REMEMBERED), is_kept: true })
    }

    /// A journal for this process, as long as it lives.
    pub(crate) fn in_memory() -> Self {
        Self { durable: Durable::new(Memory::default()).remembers(REMEMBERED), is_kept: false }
    }

    /// Begins to run durable requests and entities, on this arbiter.
    pub(crate) async fn start(&self, executor: &Executor) -> anyhow::Result<Node> {
        self.durable.start(executor).await.context("cannot run what the journal has")
    }

    /// The journal of orders and captures, if they are durable.
    pub(crate) fn of_orders(&self) -> Option<&Durable> {
        self.is_kept.then_some(&self.durable)
    }
}

impl JournalPlace {
    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unused_async, reason = "PostgreSQL is waited for")
    )]
    async fn open(&self) -> anyhow::Result<Durable> {
        match self {
            Self::File(file) => {
                let journal = Sqlite::open(file, sqlite::Options::new(PROGRAM));
                let file = file.display();
                Ok(Durable::new(
                    journal.with_context(|| format!("cannot open the journal {file}"))?,
                ))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { config, libpq } => {
                let libpq = libpq.clone();
                let options = postgres::Options { libpq, ..postgres::Options::new(PROGRAM) };
                let journal = Postgres::connect((**config).clone(), options).await;
                Ok(Durable::new(journal.context("cannot open the journal in PostgreSQL")?))
            }
        }
    }
}

impl FromStr for JournalPlace {
    type Err = String;

    fn from_str(place: &str) -> Result<Self, String> {
        match place.split_once("://") {
            Some(("postgres" | "postgresql", _)) => in_postgres(place),
            Some((scheme, _)) => Err(format!(
                "a journal is a file or postgres://user@host/database, and not in `{scheme}`"
            )),
            None => Ok(Self::File(place.into())),
        }
    }
}

#[cfg(feature = "postgres")]
fn in_postgres(url: &str) -> Result<JournalPlace, String> {
    let (url, libpq) = postgres::split_url(url);
    match url.parse() {
        Ok(config) => Ok(JournalPlace::Postgres { config: Box::new(config), libpq }),
        // the cause has the mistake
        Err(error) => Err(format!("no URL of PostgreSQL: {:#}", anyhow::Error::new(error))),
    }
}

#[cfg(not(feature = "postgres"))]
fn in_postgres(_: &str) -> Result<JournalPlace, String> {
    Err("this program is built without PostgreSQL: build it with `--features postgres`".to_owned())
}

/// The interface for jobs. The demo has no users: on the loopback every caller is an operator, and
/// elsewhere none is, and callers see and cancel what callers without a user have submitted.
pub(crate) fn jobs(durable: Durable, listens: IpAddr) -> Jobs {
    let jobs = Jobs::new(durable).callers(SecurityLevel::Anonymous);
    if listens.is_loopback() {
        return jobs.operators(SecurityLevel::Anonymous).allow(JobsFunction::ALL);
    }
    // nothing stands in front of the functions of the demo, and none of them waits for a signal
    jobs.allow([JobsFunction::Submit, JobsFunction::Cancel])
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_database() {
        let place = |text: &str| text.parse::<JournalPlace>();
        assert_eq!(place("a/b.journal"), Ok(JournalPlace::File("a/b.journal".into())));
        let url = "postgres://ann@db:5433/shop?passfile=/run/secrets/pgpass";
        let Ok(JournalPlace::Postgres { config, libpq }) = place(url) else {
            panic!("it is a URL of PostgreSQL");
        };
        assert_eq!(libpq.passfile, Some("/run/secrets/pgpass".into()));
        assert_eq!((config.get_user(), config.get_dbname()), (Some("ann"), Some("shop")));
        for (wrong, why) in [
            ("mysql://db/shop", "`mysql`"),
            ("postgres://ann@db:port/shop", "no URL of PostgreSQL"),
            ("postgres://db/shop?color=red", "color"),
        ] {
            let error = place(wrong).expect_err(wrong);
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
