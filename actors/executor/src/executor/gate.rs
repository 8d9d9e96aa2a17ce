//! Limits per client, by its address before its request is read and by its user after it is known
//! (FTN6 §1.5).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use asyncsteps::sync::limiter::Options;
use asyncsteps::{Error, codes};

use super::assignments::Assignments;
use super::functions::ConfigError;
use super::reply::Reply;
use crate::channel::Channel;
use asyncsteps_actors::sync::{Limiter, LockGuard};
use asyncsteps_futoin::message::{Coding, Response, Rid};
use asyncsteps_futoin::net::{Cidr, RangeMap, Recent, Scope};

/// How many clients are remembered unless it is set: some megabytes at most.
const CLIENTS: usize = 10_000;

/// How many clients can have limiters of their own at once unless it is set: about a megabyte.
const ASSIGNMENTS: usize = 10_000;

/// What FTN7 §1.6 recommends for its zone `default`.
const FTN7_DEFAULT: Options = Options {
    concurrent: 8,
    max_queue: Some(32),
    rate: 10,
    period: Duration::from_secs(1),
    burst: None,
};

/// Named limiters, and which clients each of them is for. Every client has a limiter of its own.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps::sync::limiter::Options;
/// use asyncsteps_executor::{ClientLimits, Executor};
///
/// let strict = Options { concurrent: 10, rate: 100, period: Duration::from_secs(1), ..Default::default() };
/// let limits = ClientLimits::new()
///     .define("strict", strict)
///     .define("office", Options { rate: 1_000, ..strict })
///     .range("10.0.0.0/8".parse()?, "office")
///     .others("strict");
/// let executor = Executor::builder().client_limits(limits).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it limits nobody before an executor has it"]
pub struct ClientLimits {
    limiters: Vec<(Box<str>, Options)>,
    ranges: Vec<(Cidr, Box<str>)>,
    others: Option<Box<str>>,
    users: Option<Box<str>>,
    scope: Scope,
    clients: usize,
    assignments: usize,
}

impl ClientLimits {
    /// No limits.
    pub fn new() -> Self {
        Self {
            limiters: Vec::new(),
            ranges: Vec::new(),
            others: None,
            users: None,
            scope: Scope::default(),
            clients: CLIENTS,
            assignments: ASSIGNMENTS,
        }
    }

    /// The default limit of FTN6 §1.5, with the name `default`, for all clients: 8 requests at once,
    /// 32 that wait, and 10 per second, as FTN7 §1.6 has it for invokers.
    ///
    /// An executor has no limits per client unless it is given some: the rate that suits depends on
    /// what its functions do, and behind one address there may be many clients. What is shared out
    /// fairly without such limits is the [`Budget`](asyncsteps_actors::budget::Budget).
    pub fn ftn6() -> Self {
        Self::new().define("default", FTN7_DEFAULT).others("default")
    }

    /// What a name stands for; a later definition replaces an earlier one.
    pub fn define(mut self, name: &str, options: Options) -> Self {
        self.limiters.retain(|(other, _)| **other != *name);
        self.limiters.push((name.into(), options));
        self
    }

    /// Clients whose address is in a range get the limiter of this name; the narrowest range counts.
    pub fn range(mut self, range: Cidr, name: &str) -> Self {
        self.ranges.push((range, name.into()));
        self
    }

    /// Clients in no range get the limiter of this name; unless it is set they have no limit.
    pub fn others(mut self, name: &str) -> Self {
        self.others = Some(name.into());
        self
    }

    /// Who has authenticated gets the limiter of this name, one per user, in place of that of the
    /// address: with a request, and from then on with the connection it came by.
    pub fn users(mut self, name: &str) -> Self {
        self.users = Some(name.into());
        self
    }

    /// Which addresses are one client; `/32` and `/64` unless set.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// How many clients are remembered; 10,000 unless set. A client that is forgotten starts anew.
    pub fn remember(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// How many ranges and users can be given limiters at once while the executor runs, with
    /// [`limit_addresses`](super::Executor::limit_addresses) and
    /// [`limit_user`](super::Executor::limit_user); 10,000 unless set. Further ones are refused.
    pub fn assignments(mut self, number: usize) -> Self {
        self.assignments = number;
        self
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The limits of an executor at work.
pub(super) struct Gate {
    limits: Vec<Limit>,
    ranges: RangeMap<usize>,
    others: Option<usize>,
    users: Option<usize>,
    scope: Scope,
    /// What counts before the configuration.
    assignments: Assignments,
    /// The limiters of the clients seen last; locked for a look-up only.
    clients: Mutex<Recent<(usize, Who), Limiter>>,
}

/// A named limiter, started by the first client that it is for.
struct Limit {
    name: Box<str>,
    options: Options,
    limiter: OnceLock<Limiter>,
}

/// Whom a limiter is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    Address(Cidr),
    User(Box<str>),
}

impl Gate {
    pub(super) fn new(config: ClientLimits) -> Result<Self, ConfigError> {
        let ClientLimits { limiters, ranges, others, users, scope, clients, assignments } = config;
        for (name, options) in &limiters {
            let name = || String::from(&**name);
            options.check().map_err(|zero| ConfigError::ZeroLimit { name: name(), zero })?;
        }
        let names: HashMap<&str, usize> =
            limiters.iter().enumerate().map(|(at, (name, _))| (&**name, at)).collect();
        let find = |name: Box<str>| {
            names
                .get(&*name)
                .copied()
                .ok_or_else(|| ConfigError::NoSuchLimiter { name: name.into() })
        };
        let ranges = ranges.into_iter().map(|(range, name)| Ok((range, find(name)?)));
        Ok(Self {
            ranges: ranges.collect::<Result<_, ConfigError>>()?,
            others: others.map(find).transpose()?,
            users: users.map(find).transpose()?,
            scope,
            assignments: Assignments::new(assignments),
            clients: Mutex::new(Recent::new(clients)),
            limits: limiters
                .into_iter()
                .map(|(name, options)| Limit { name, options, limiter: OnceLock::new() })
                .collect(),
        })
    }

    /// The number of the limiter of this name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.limits.iter().position(|limit| *limit.name == *name)
    }

    pub(super) fn assignments(&self) -> &Assignments {
        &self.assignments
    }

    /// Lets in who comes over a channel: the user that it belongs to, or else its address.
    pub(super) async fn enter(&self, channel: &Channel) -> Result<Pass, Error> {
        if channel.is_stateful()
            && let Some(user) = channel.with_state(|owner: &mut Owner| owner.0.clone())
            && let Some(limit) = self.of_user(&user)
        {
            return self.pass(limit, Who::User(user)).await;
        }
        let Some(address) = channel.peer().map(|peer| peer.ip()) else {
            return Ok(Pass::default());
        };
        match self.of_address(address) {
            Some(limit) => self.pass(limit, Who::Address(self.scope.of(address))).await,
            None => Ok(Pass::default()),
        }
    }

    /// Lets in a user who is known now, unless `pass` is the user's; the channel belongs to the user
    /// from now on.
    pub(super) async fn enter_user(
        &self,
        user: &str,
        channel: &Channel,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        let Some(limit) = self.of_user(user) else { return Ok(()) };
        let who = Who::User(user.into());
        if pass.place.as_ref().is_some_and(|(owner, _)| *owner == who) {
            return Ok(());
        }
        *pass = self.pass(limit, who).await?;
        if channel.is_stateful() {
            channel.with_state(|owner: &mut Owner| owner.0 = Some(user.into()));
        }
        Ok(())
    }

    fn of_address(&self, address: IpAddr) -> Option<usize> {
        let assigned = self.assignments.of_address(address);
        assigned.or_else(|| self.ranges.get(address).copied()).or(self.others)
    }

    fn of_user(&self, user: &str) -> Option<usize> {
        self.assignments.of_user(user).or(self.users)
    }

    async fn pass(&self, limit: usize, who: Who) -> Result<Pass, Error> {
        let place = self.limiter(limit, who.clone()).lock().await?;
        Ok(Pass { place: Some((who, place)) })
    }

    fn limiter(&self, limit: usize, who: Who) -> Limiter {
        let Limit { options, limiter, .. } = &self.limits[limit];
        let start = || limiter.get_or_init(|| Limiter::start(*options)).key(who.to_string());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get_or_insert_with((limit, who.clone()), start).clone()
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(range) => write!(f, "{range:?}"),
            Self::User(name) => write!(f, "user {name}"),
        }
    }
}

/// A place inside of the limits of a client, until this is dropped.
#[derive(Debug, Default)]
#[must_use = "dropping it gives the place back"]
pub struct Pass {
    place: Option<(Who, LockGuard)>,
}

/// The user who authenticated last on a channel; its state.
#[derive(Default)]
struct Owner(Option<Box<str>>);

/// A client is over its limits.
#[derive(Debug, thiserror::Error)]
#[error("the client is over its limits")]
pub struct Rejected(#[from] Error);

impl Rejected {
    /// The answer to send, DefenseRejected.
    #[must_use]
    pub fn into_reply(self, rid: Option<&Rid>, coding: Coding) -> Reply {
        let response = Response::error(codes::DEFENSE_REJECTED, self.0.info()).with_rid(rid);
        Reply::message(response, coding, None)
    }
}
