//! Limits per client, by its address before its request is read and by its user after it is known
//! (FTN6 §1.5).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use asyncsteps_core::sync::limiter::Options;

use asyncsteps_actors::sync::{Limiter, LockGuard};
use asyncsteps_futoin::net::{Cidr, Scope};
use parking_lot::Mutex;

use super::config_error::ConfigError;
use super::dynamic_limits::DynamicLimits;
use super::range_map::RangeMap;
use super::refused::Refused;
use crate::channel::Channel;
use crate::recent::Recent;

/// Default of [`ClientLimits::remember`]: some megabytes at most.
const CLIENTS: usize = 10_000;

/// Default of [`ClientLimits::assignments`]: about a megabyte.
const ASSIGNMENTS: usize = 10_000;

/// The recommendation of FTN7 §1.6 for its zone `default`.
const FTN7_DEFAULT: Options = Options {
    concurrent: 8,
    max_queue: Some(32),
    rate: 10,
    period: Duration::from_secs(1),
    burst: None,
};

/// Named limiters, and the clients that each of them is for. Each client has its own counters.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_core::sync::limiter::Options;
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
#[must_use = "it limits nothing before an executor has it"]
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
    /// An executor has no limits per client unless some are set: the rate that suits depends on
    /// what its functions do, and behind one address there may be many clients. Without such
    /// limits, the [`Budget`](asyncsteps_actors::budget::Budget) is still shared fairly.
    pub fn ftn6() -> Self {
        Self::new().define("default", FTN7_DEFAULT).others("default")
    }

    /// Defines a limiter; a later one of the same name replaces it.
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

    /// Authenticated users get the limiter of this name, one per user, in place of the limiter of
    /// their address: for the request, and from then on for its connection.
    pub fn users(mut self, name: &str) -> Self {
        self.users = Some(name.into());
        self
    }

    /// The addresses that are one client; `/32` and `/64` unless set.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// How many clients are remembered; 10,000 unless set. A client that is forgotten starts anew.
    pub fn remember(mut self, clients: usize) -> Self {
        self.clients = clients;
        self
    }

    /// How many ranges and users can have an assigned limiter at once while the executor runs, with
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

/// The limits of clients while an executor runs.
pub(super) struct ClientLimiters {
    limits: Vec<Limit>,
    ranges: RangeMap<usize>,
    others: Option<usize>,
    users: Option<usize>,
    scope: Scope,
    /// Limits that were set at run time; they go before the configuration.
    dynamic: DynamicLimits,
    /// The limiters of the clients seen last; locked for a look-up only.
    clients: Mutex<Recent<(usize, ClientKey), Limiter>>,
}

/// A named limiter, started by the first client that it is for.
struct Limit {
    name: Box<str>,
    options: Options,
    limiter: OnceLock<Limiter>,
}

/// The client that a limiter is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ClientKey {
    Address(Cidr),
    User(Box<str>),
}

impl ClientLimiters {
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
            dynamic: DynamicLimits::new(assignments),
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

    pub(super) fn dynamic(&self) -> &DynamicLimits {
        &self.dynamic
    }

    /// Waits for a permit for a channel: of the user that it belongs to, or else of its address.
    pub(super) async fn enter(&self, channel: &Channel) -> Result<ClientPermit, Refused> {
        if channel.is_stateful()
            && let Some(user) = channel.with_state(|owner: &mut Owner| owner.0.clone())
            && let Some(limit) = self.of_user(&user)
        {
            return self.lock(limit, ClientKey::User(user)).await;
        }
        let Some(address) = channel.peer().map(|peer| peer.ip()) else {
            return Ok(ClientPermit::default());
        };
        match self.of_address(address) {
            Some(limit) => self.lock(limit, ClientKey::Address(self.scope.of(address))).await,
            None => Ok(ClientPermit::default()),
        }
    }

    /// Replaces a permit by one of the user, after the authentication; the channel belongs to the user
    /// from now on.
    pub(super) async fn enter_user(
        &self,
        user: &str,
        channel: &Channel,
        permit: &mut ClientPermit,
    ) -> Result<(), Refused> {
        let Some(limit) = self.of_user(user) else { return Ok(()) };
        let key = ClientKey::User(user.into());
        if permit.held.as_ref().is_some_and(|(owner, _)| *owner == key) {
            return Ok(());
        }
        *permit = self.lock(limit, key).await?;
        if channel.is_stateful() {
            channel.with_state(|owner: &mut Owner| owner.0 = Some(user.into()));
        }
        Ok(())
    }

    fn of_address(&self, address: IpAddr) -> Option<usize> {
        let limit = self.dynamic.of_address(address);
        limit.or_else(|| self.ranges.around(address).next().copied()).or(self.others)
    }

    fn of_user(&self, user: &str) -> Option<usize> {
        self.dynamic.of_user(user).or(self.users)
    }

    async fn lock(&self, limit: usize, key: ClientKey) -> Result<ClientPermit, Refused> {
        let lock = self.limiter(limit, key.clone()).lock().await;
        let guard = lock.map_err(|error| Refused::over_client_limit(&error))?;
        Ok(ClientPermit { held: Some((key, guard)) })
    }

    fn limiter(&self, limit: usize, key: ClientKey) -> Limiter {
        let Limit { options, limiter, .. } = &self.limits[limit];
        let start = || limiter.get_or_init(|| Limiter::start(*options)).key(key.to_string());
        let mut clients = self.clients.lock();
        clients.get_or_insert_with((limit, key.clone()), start).clone()
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(range) => write!(f, "{range}"),
            Self::User(name) => write!(f, "user {name}"),
        }
    }
}

/// A permit of the limits of a client (FTN6 §1.5), until this is dropped.
#[derive(Debug, Default)]
#[must_use = "dropping it gives the permit back"]
pub struct ClientPermit {
    held: Option<(ClientKey, LockGuard)>,
}

/// The last user that authenticated on a channel; a part of its state.
#[derive(Default)]
struct Owner(Option<Box<str>>);
