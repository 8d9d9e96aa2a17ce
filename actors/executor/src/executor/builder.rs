//! Building an executor: interfaces and limits.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::budget::{Budget, Client, Limits};
use asyncsteps_futoin::iface::Definition;
use asyncsteps_futoin::message::Request;

use super::client_limits::{ClientLimiters, ClientLimits};
use super::config_error::ConfigError;
use super::declaration::Declaration;
use super::forward::forwarded;
use super::functions::Functions;
use super::handle::{Config, Executor};
use super::hooks::{GuardedHooks, Hooks};
use super::invoker::Invoker;
use super::registry::Registry;
use super::result::result_step;
use crate::channel::Channel;
use crate::observe::{Exporter, Recorder, Retention, Sampling};
use crate::plan::Service;
use crate::security::{MacAlgorithm, SecurityProvider};

/// Default of [`Builder::request_timeout`] (FTN6 §1.2): a time that people wait.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Default of [`Builder::heavy_timeout`] (FTN3 §1.6).
const HEAVY_TIMEOUT: Duration = Duration::from_secs(60);

/// Default of [`Builder::upload_rate`], in bytes per second: slower than any network that people use.
const UPLOAD_RATE: u64 = 1 << 10;

/// Builds an executor; made by [`Executor::builder`](super::Executor::builder).
///
/// ```
/// use asyncsteps_core::Template;
/// use asyncsteps_executor::{Executor, RequestSteps};
/// use asyncsteps_executor::iface::{Loader, Source};
///
/// let ping = Template::build(|asi| {
///     asi.add(|asi, ()| {
///         let echo = asi.param::<i32>("echo")?;
///         asi.reply(serde_json::json!({ "echo": echo }))
///     });
/// });
/// let mut loader = Loader::new([Source::builtin()]);
/// let executor = Executor::builder()
///     .interface(loader.load(&"futoin.anonping:1.0".parse()?)?, |functions| {
///         functions.add("ping", &ping);
///     })
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Builder {{ budget: {:?}, .. }}", self.config.budget)]
#[must_use = "a builder does nothing before it is built"]
pub struct Builder {
    config: Config,
    registry: Registry,
    keep: Option<Retention>,
    exporter: Option<Arc<dyn Exporter>>,
    errors: Vec<ConfigError>,
}

impl Executor {
    /// Starts to build an executor.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    fn new() -> Self {
        let config = Config {
            request_timeout: REQUEST_TIMEOUT,
            heavy_timeout: HEAVY_TIMEOUT,
            upload_rate: UPLOAD_RATE,
            max_upload: u64::MAX,
            budget: Budget::new(Limits::default()),
            client: Arc::new(|_, channel| channel.peer().map_or(Client::Unknown, Client::from)),
            security: None,
            mac_algorithms: None,
            hooks: None,
            client_limits: None,
            checks_results: true,
            recorder: None,
            sampling: Sampling::default(),
            invoker: None,
            forwarded: None,
        };
        let (registry, keep, errors) =
            (Registry::new(result_step()), Some(Retention::default()), Vec::new());
        Self { config, registry, keep, exporter: None, errors }
    }

    /// Hosts an interface; `define` provides the templates of its functions.
    ///
    /// Every declared function needs a template, or [`Functions::not_implemented`], so that a
    /// forgotten one is found here and not by its first caller. The functions can also be called
    /// under the names of the interfaces that this one inherits from: by anonymous callers only where
    /// that interface itself has AllowAnonymous (FTN3 §2.3, §2.4).
    pub fn interface(
        self,
        definition: Arc<Definition>,
        define: impl FnOnce(&mut Functions),
    ) -> Self {
        self.host(definition.into(), (), define)
    }

    /// Hosts an interface whose functions share a state: `define` provides their
    /// [handlers](Functions::on), which read parameters and return results as Rust types. Otherwise
    /// as [`interface`](Self::interface).
    pub fn service<S: Service>(
        self,
        declaration: impl Into<Declaration>,
        state: S,
        define: impl FnOnce(&mut Functions<S>),
    ) -> Self {
        self.host(declaration.into(), state, define)
    }

    fn host<S>(
        mut self,
        declaration: Declaration,
        state: S,
        define: impl FnOnce(&mut Functions<S>),
    ) -> Self {
        let registered = self.registry.register(declaration, Arc::new(state), define);
        self.errors.extend(registered.err());
        self
    }

    /// How long a request may take until it is answered with InternalError and its flow is
    /// cancelled; 5 s unless set (FTN6 §1.2).
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.config.request_timeout = limit;
        self
    }

    /// The same for functions declared `heavy`; 60 s unless set.
    pub fn heavy_timeout(mut self, limit: Duration) -> Self {
        self.config.heavy_timeout = limit;
        self
    }

    /// How fast a raw upload must come, in bytes per second; 1,024 unless set, zero for any. A slower
    /// one loses the difference from the time of its request, which counts from the last chunk
    /// otherwise, so that an upload of single bytes ends. What the handler takes counts for nothing.
    pub fn upload_rate(mut self, rate: u64) -> Self {
        self.config.upload_rate = rate;
        self
    }

    /// How many bytes a raw upload may have; any number unless set. A longer one ends with InvalidRequest: at once if its
    /// length is known, otherwise behind the last byte that it may have.
    pub fn max_upload(mut self, bytes: u64) -> Self {
        self.config.max_upload = bytes;
        self
    }

    /// How many requests may run at once, over all arbiters; more are answered with DefenseRejected.
    /// Short for a [`budget`](Self::budget) without a queue.
    pub fn max_requests(self, limit: usize) -> Self {
        self.budget(Budget::new(Limits { concurrent: limit, queued: 0, ..Limits::default() }))
    }

    /// How much may run and wait at once, over all arbiters; several executors may share one
    /// budget. [`Limits::default`] unless set.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.config.budget = budget;
        self
    }

    /// The client that a request is counted for in the budget: the peer of its channel unless set.
    /// Behind proxies, clients are distinguished only if the transport trusts the proxies; otherwise
    /// all clients of a proxy are one client.
    pub fn client(
        mut self,
        client: impl Fn(&Request, &Channel) -> Client + Send + Sync + 'static,
    ) -> Self {
        self.config.client = Arc::new(client);
        self
    }

    /// Limits per client (FTN6 §1.5), for transports that ask for [`Executor::admit`], and per
    /// user.
    pub fn client_limits(mut self, limits: ClientLimits) -> Self {
        match ClientLimiters::new(limits) {
            Ok(limits) => self.config.client_limits = Some(Arc::new(limits)),
            Err(error) => self.errors.push(error),
        }
        self
    }

    /// The provider of users (FTN6 §1.2). Without one, all credentials are wrong.
    pub fn security(mut self, provider: impl SecurityProvider + 'static) -> Self {
        self.config.security = Some(Arc::new(provider));
        self
    }

    /// Which algorithms a signed request may use; all of [`MacAlgorithm`] unless set, none if this is
    /// empty. A request with another one is refused with SecurityError before the provider is asked (FTN6
    /// §1.3.3, FTN8 §2.11.2).
    ///
    /// ```
    /// use asyncsteps_executor::Executor;
    /// use asyncsteps_executor::security::MacAlgorithm::{Sha256, Sha3_256, Sha512};
    ///
    /// let executor = Executor::builder().mac_algorithms([Sha256, Sha512, Sha3_256]).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mac_algorithms(mut self, accepted: impl IntoIterator<Item = MacAlgorithm>) -> Self {
        self.config.mac_algorithms = Some(accepted.into_iter().collect());
        self
    }

    /// The hooks that get the events of the executor.
    pub fn hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.config.hooks = Some(Arc::new(GuardedHooks(hooks)));
        self
    }

    /// Has calls of functions that this executor does not host carried out elsewhere (FTN7). Steps call
    /// them as they call hosted ones, with [`CallSteps`](super::CallSteps). A function is hosted if its
    /// interface is, in a version that serves the call. Unless this is set, other calls fail with
    /// UnknownInterface or NotSupportedVersion.
    pub fn invoker(mut self, invoker: impl Invoker + 'static) -> Self {
        self.config.invoker = Some(Arc::new(invoker));
        self
    }

    /// Has requests of transports for functions that this executor does not host carried out elsewhere, so
    /// that one front serves what several nodes host: for their caller, who is authenticated here, within
    /// their time limit, and in their trace. Budget and limits count here too; the parameters, and whether
    /// the caller may call the function, are checked where it is hosted. Raw data and requests in a binary
    /// coding are refused with InvalidRequest. A caller learns whether its request was not carried out
    /// (ConnectError, also if the nodes of its function are away), or may have been (CommError, also at the end of its
    /// time). Unless this is set, and for [functions that the invoker does not know](super::NotHosted), such requests are refused with UnknownInterface or NotSupportedVersion.
    ///
    /// Everything that the invoker reaches can be called from outside then. An invoker that is to forward
    /// only some interfaces refuses the others with [`NotHosted`](super::NotHosted).
    pub fn forward(mut self, invoker: impl Invoker + 'static) -> Self {
        self.config.forwarded = forwarded(Arc::new(invoker)).map(Arc::new);
        self
    }

    /// Which requests are kept when they have ended, with what their steps did; [`Retention::default`] unless set.
    pub fn record(mut self, keep: Retention) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Keeps no requests, and does not record what steps do unless they are [exported](Self::export).
    pub fn unrecorded(mut self) -> Self {
        self.keep = None;
        self
    }

    /// Receives the sampled requests when they have ended, with what their steps did; nothing unless
    /// set.
    pub fn export(mut self, exporter: impl Exporter) -> Self {
        self.exporter = Some(Arc::new(exporter));
        self
    }

    /// Which requests are sampled, whose steps get spans and are exported; all that no caller has left
    /// out unless set.
    pub fn sample(mut self, sampling: Sampling) -> Self {
        self.config.sampling = sampling;
        self
    }

    /// Does not check results against the interfaces, for functions that are known to keep to them.
    /// Parameters are checked all the same.
    pub fn unchecked_results(mut self) -> Self {
        self.config.checks_results = false;
        self
    }

    /// The executor.
    ///
    /// # Errors
    /// The [`ConfigError`] of an [`interface`](Self::interface) or of limits, all of them if there are
    /// [several](ConfigError::Several).
    pub fn build(self) -> Result<Executor, ConfigError> {
        let Self { config, registry, keep, exporter, errors } = self;
        let config = Config { recorder: Recorder::new(keep, exporter), ..config };
        match ConfigError::of(errors) {
            Some(error) => Err(error),
            None => Ok(Executor::new(config, registry)),
        }
    }
}
