//! Synchronisation objects by name and key, so that templates need no handles to them.

use std::sync::Arc;

use actix::{Arbiter, ArbiterHandle};
use asyncsteps_core::sync::{ZeroLimit, limiter, mutex, throttle};
use dashmap::DashMap;
use thiserror::Error;

pub use super::limits::Limits;
use super::{Limiter, Mutex, Throttle};

/// Objects by name and key. Cheap to clone.
///
/// A name means one kind of object with its limits; it belongs to the program, so it is `'static`.
/// A key is data, such as the number of a product: its object is made when it is first asked for,
/// and takes memory only while it is used.
///
/// ```
/// # use asyncsteps_core::{Template, sync::limiter};
/// # use asyncsteps_actors::{flow::start_flow, sync::Registry};
/// # actix::System::new().block_on(async {
/// let registry = Registry::new();
/// // two orders of a client at once, a hundred per second, and some may wait
/// registry.define(
///     "client",
///     limiter::Options {
///         concurrent: 2,
///         max_queue: Some(50),
///         rate: 100,
///         burst: Some(50),
///         ..Default::default()
///     },
/// )?;
/// let order = Template::build(move |asi| {
///     let registry = registry.clone();
///     asi.add(move |asi, (client, sku): (String, String)| {
///         let stock = registry.mutex("stock", sku)?;
///         asi.sync(&registry.limiter("client", client)?, move |asi, ()| {
///             asi.sync(&stock, |asi, ()| asi.success(7));
///         });
///         Ok(())
///     });
/// });
/// for sku in ["apple", "pear"] {
///     let mut flow = asyncsteps_core::Flow::new();
///     flow.success_step(("ann", sku));
///     flow.copy_from(&order);
///     assert_eq!(start_flow::<i32>(flow).await?, 7);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Registry(Arc<RegistryState>);

#[derive(Debug)]
struct RegistryState {
    /// Where the actors of throttles run; `None` for where they are first used.
    arbiter: Option<ArbiterHandle>,
    objects: DashMap<&'static str, RegisteredLock>,
}

/// The object of a name, without its keys.
#[derive(Clone, Debug)]
enum RegisteredLock {
    Mutex(Mutex),
    Throttle(Throttle),
    Limiter(Limiter),
}

/// A name was used in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is in use for another kind of object.
    #[error("`{name}` is a {is}, not a {wanted}")]
    WrongKind {
        /// The name.
        name: &'static str,
        /// The kind that it is in use for.
        is: &'static str,
        /// The kind that was asked for.
        wanted: &'static str,
    },
    /// The name was defined or used before.
    #[error("`{name}` is a {is} already: define it before it is used, and once")]
    Defined {
        /// The name.
        name: &'static str,
        /// The kind that it is in use for.
        is: &'static str,
    },
    /// A limit is 0 that must not be.
    #[error("`{name}` cannot be defined: {zero}")]
    Zero {
        /// The name.
        name: &'static str,
        /// Which limit.
        zero: ZeroLimit,
    },
}

impl Registry {
    /// A registry whose throttles have their actors on this arbiter; elsewhere, as in a simulation,
    /// see [`Throttle::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::of(Arbiter::try_current())
    }

    /// A registry whose throttles have their actors on this arbiter.
    #[must_use]
    pub fn on(arbiter: ArbiterHandle) -> Self {
        Self::of(Some(arbiter))
    }

    fn of(arbiter: Option<ArbiterHandle>) -> Self {
        Self(Arc::new(RegistryState { arbiter, objects: DashMap::new() }))
    }

    /// Defines what a name means; a name that was not defined gets the default limits of the kind
    /// that is first asked for.
    ///
    /// # Errors
    /// [`RegistryError::Defined`] if the name was defined or used before, [`RegistryError::Zero`] if a
    /// limit is 0 that must not be.
    pub fn define(
        &self,
        name: &'static str,
        limits: impl Into<Limits>,
    ) -> Result<(), RegistryError> {
        let limits = limits.into();
        limits.check().map_err(|zero| RegistryError::Zero { name, zero })?;
        match self.0.objects.entry(name) {
            dashmap::Entry::Vacant(free) => {
                free.insert(self.make(name, limits));
                Ok(())
            }
            dashmap::Entry::Occupied(taken) => {
                Err(RegistryError::Defined { name, is: taken.get().kind() })
            }
        }
    }

    /// The mutex of a name and key.
    ///
    /// # Errors
    /// [`RegistryError::WrongKind`] if the name is in use for another kind.
    pub fn mutex(&self, name: &'static str, key: impl AsRef<str>) -> Result<Mutex, RegistryError> {
        self.get(name, Limits::Mutex(mutex::Options::default()), |object| match object {
            RegisteredLock::Mutex(mutex) => Ok(mutex.key(key)),
            other @ (RegisteredLock::Throttle(_) | RegisteredLock::Limiter(_)) => Err(other.kind()),
        })
    }

    /// The throttle of a name and key.
    ///
    /// # Errors
    /// [`RegistryError::WrongKind`] if the name is in use for another kind.
    pub fn throttle(
        &self,
        name: &'static str,
        key: impl AsRef<str>,
    ) -> Result<Throttle, RegistryError> {
        self.get(name, Limits::Throttle(throttle::Options::default()), |object| match object {
            RegisteredLock::Throttle(throttle) => Ok(throttle.key(key)),
            other @ (RegisteredLock::Mutex(_) | RegisteredLock::Limiter(_)) => Err(other.kind()),
        })
    }

    /// The limiter of a name and key.
    ///
    /// # Errors
    /// [`RegistryError::WrongKind`] if the name is in use for another kind.
    pub fn limiter(
        &self,
        name: &'static str,
        key: impl AsRef<str>,
    ) -> Result<Limiter, RegistryError> {
        self.get(name, Limits::Limiter(limiter::Options::default()), |object| match object {
            RegisteredLock::Limiter(limiter) => Ok(limiter.key(key)),
            other @ (RegisteredLock::Mutex(_) | RegisteredLock::Throttle(_)) => Err(other.kind()),
        })
    }

    fn get<T>(
        &self,
        name: &'static str,
        default: Limits,
        with_key: impl FnOnce(&RegisteredLock) -> Result<T, &'static str>,
    ) -> Result<T, RegistryError> {
        let wrong = |is| RegistryError::WrongKind { name, is, wanted: default.kind() };
        if let Some(object) = self.0.objects.get(name) {
            return with_key(&object).map_err(wrong);
        }
        let object = self.0.objects.entry(name).or_insert_with(|| self.make(name, default));
        with_key(&object).map_err(wrong)
    }

    fn make(&self, name: &'static str, limits: Limits) -> RegisteredLock {
        let throttle = |options| match &self.0.arbiter {
            Some(arbiter) => Throttle::named_on(name, arbiter, options),
            None => Throttle::named(name, options),
        };
        match limits {
            Limits::Mutex(options) => RegisteredLock::Mutex(Mutex::named(name, options)),
            Limits::Throttle(options) => RegisteredLock::Throttle(throttle(options)),
            Limits::Limiter(options) => {
                RegisteredLock::Limiter(Limiter::of(name, options, throttle(options.throttle())))
            }
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl RegisteredLock {
    fn kind(&self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::Throttle(_) => "throttle",
            Self::Limiter(_) => "limiter",
        }
    }
}
