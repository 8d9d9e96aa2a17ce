//! FutoIn over HTTP (FTN5): a [`Server`] of its own, or with the feature `actix-web` a [`Service`] that an
//! actix-web application mounts beside its own routes.
//!
//! What it serves under its path, such as `/ftn/`:
//! - `POST /ftn/` with a message, in any coding;
//! - an upgrade to a [WebSocket](super::websocket) there;
//! - `GET`, `HEAD` or `POST /ftn/{interface}/{version}/{function}[/{sec}]?name=value`, a function by its URL.
//!   The body of a POST is a JSON object with further parameters (`application/json`), or the raw data of an upload.
//!   With `Accept: text/event-stream` the answer has what the function [emits](asyncsteps_executor::Cx::emit), as it comes,
//!   and at the end its `result` or `error`, unless it fails before its first event; a comment comes when nothing else
//!   does for 15 s.
//!
//! [`openapi`](openapi()) describes that to tools that do not know FutoIn.

mod answer;
mod body;
mod end_point;
pub(super) mod head;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg_attr(not(feature = "actix-web"), path = "no_mount.rs")]
mod mount;
mod openapi;
mod own;

use std::sync::Arc;

use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::net::TrustedProxies;

use super::websocket::WebSocketLimits;
use asyncsteps_executor::Executor;

#[cfg(feature = "rustls")]
pub use asyncsteps_server::{CertificateError, tls_from_pem};
pub use asyncsteps_server::{NewConnection, RequestBody, ServerLimits};
pub use end_point::Cors;
pub use head::RequestHead;
#[cfg(feature = "actix-web")]
pub use mount::page;
pub use openapi::{OpenApi, openapi};
pub use own::Server;

use end_point::{EndPoint, Sites};
use own::Traffic;

/// The media type of most messages.
const MESSAGE: &str = "application/futoin+json";

/// The end point of an executor, for a [`Server`], or with the feature `actix-web` for an application
/// that mounts it.
///
/// It answers under its path with and without the trailing slash. `Server::new(service)` serves it
/// within [limits](ServerLimits). An actix-web application [mounts it](#impl-HttpServiceFactory-for-Service)
/// beside its own routes.
#[derive(Clone, derive_more::Debug)]
pub struct Service {
    path: String,
    /// Of the arbiter that serves it.
    #[debug(skip)]
    traffic: Traffic,
    #[debug(skip)]
    end_point: EndPoint,
}

/// Serves an executor under a path such as `/ftn/`; see [`Service`].
#[must_use]
pub fn service(path: &str, executor: Executor) -> Service {
    Service::new(path, executor)
}

impl Service {
    fn new(path: &str, executor: Executor) -> Self {
        let traffic = Traffic(executor.traffic());
        let end_point = EndPoint {
            executor,
            web_socket: WebSocketLimits::default(),
            sites: Sites::default(),
            get_calls: None,
            problems: None,
            proxies: Arc::default(),
            is_secure: false,
            #[cfg(feature = "mcp")]
            mcp: None,
        };
        Self { path: path.trim_end_matches('/').to_owned(), traffic, end_point }
    }

    /// How WebSocket connections are watched and bounded; [`WebSocketLimits::default`] unless set.
    #[must_use]
    pub fn web_socket(mut self, limits: WebSocketLimits) -> Self {
        self.end_point.web_socket = limits;
        self
    }

    /// Lets pages of other sites call, over HTTP and WebSocket. Unless this is set only pages of the
    /// own site may: pages whose `Origin` has the host and port of the request's `Host`. Other calls
    /// by pages are refused with 403 before anything runs, because a browser adds its own
    /// credentials to them: the network it is in, cookies, passwords. A proxy in front must pass
    /// `Host` on. Clients that are no browsers send no `Origin`, and are not concerned.
    #[must_use]
    pub fn cors(mut self, cors: Cors) -> Self {
        self.end_point.sites.cors = Some(Arc::new(cors));
        self
    }

    /// Serves requests for these host names only, such as `api.example.com` or `[::1]`, with any
    /// port; others are refused with 403. All unless set, because only the operator knows the names.
    ///
    /// It keeps out pages whose own name resolves to this machine (DNS rebinding): set it
    /// where the network alone decides who may call, such as on a developer's machine.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.end_point.sites.hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Which functions can be called with GET; all unless set, as FTN5 §2 has it. Others are answered
    /// with 405. Links, images and reloads make GET requests, so a function that changes something
    /// is better not among them. HEAD may call what GET may: the function runs, and the answer has no body.
    ///
    /// ```
    /// # use asyncsteps_executor::Executor;
    /// # use asyncsteps_transport::http;
    /// # let executor = Executor::builder().build()?;
    /// let service = http::service("/ftn/", executor)
    ///     .get_calls(|function| matches!(function.func(), "get" | "list" | "stock"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn get_calls(
        mut self,
        allowed: impl Fn(&FunctionName) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.end_point.get_calls = Some(Arc::new(allowed));
        self
    }

    /// Answers errors of functions called by URL as plain HTTP has it: with a status and problem details
    /// (RFC 9457, `application/problem+json`), for clients that know HTTP and not FutoIn, such as `curl -f`,
    /// generated clients, and balancers. Results and raw data stay as they are, and so do the answers to messages,
    /// whose errors have the status 200 (FTN5). FutoIn clients upload raw data to URLs and expect messages: leave it
    /// unset for them.
    ///
    /// `status_of` has the statuses of the application's own, 400 to 599, by error code; `None` leaves these:
    ///
    /// | error code | status |
    /// |---|---|
    /// | InvalidRequest | 400; 404 for a function that its interface does not have, 405 with `Allow` for another method, 431 for a path and query that are larger than the function takes, 413 for a body |
    /// | SecurityError, PleaseReauth | 401 with `WWW-Authenticate`; 403 where other credentials would not help: from a page of another site, over a channel that is not secure enough, without a signature, where the executor has no security provider; and PleaseReauth with credentials, whose level is too low |
    /// | Unauthorized | 403 |
    /// | UnknownInterface, NotSupportedVersion, and a declared error whose name begins with `Unknown`, such as UnknownJob; NotDurable of jobs | 404 |
    /// | HasEnded, NotStopped, NotUndone, NoUndo, DeclaredByProgram of jobs; TooManySignals | 409; 429 |
    /// | another error that the interface declares | 422: understood, and not carried out |
    /// | DefenseRejected | 429, without `Retry-After`, because nothing knows when there is a place |
    /// | InternalError | 500 |
    /// | NotImplemented | 501 |
    /// | ConnectError: the request was not carried out, and may be made again | 503 with `Retry-After` |
    /// | CommError: it is not known whether it was; Timeout and OutcomeUnknown, if declared | 502; 504 |
    ///
    /// The problem has `title`, `status`, the text for callers as `detail`, and the error code as `code`. `type` is
    /// left out, because the codes of FutoIn are no URIs. What is refused before a function is looked for has a status
    /// and no body: 431 for a head over [`ServerLimits::head_size`], 503 for a head without memory.
    ///
    /// ```
    /// # use asyncsteps_executor::Executor;
    /// # use asyncsteps_transport::http;
    /// # let executor = Executor::builder().build()?;
    /// let service = http::service("/ftn/", executor).problem_details(|code| match code {
    ///     "OutOfStock" => Some(409),
    ///     _ => None,
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn problem_details(
        mut self,
        status_of: impl Fn(&str) -> Option<u16> + Send + Sync + 'static,
    ) -> Self {
        self.end_point.problems = Some(Arc::new(status_of));
        self
    }

    /// Serves the [tools](asyncsteps_executor::Functions::tool) of the executor to language models and their programs:
    /// at a path such as `/mcp`, by the Model Context Protocol (MCP) over HTTP, under the name and version of the
    /// service. The executor answers as to all other calls: with the same users (`Authorization`), checks, limits,
    /// pages of other sites, and undo.
    ///
    /// - A tool has the parameters of its function as input, and its result as structured content, with their schemas.
    ///   [Functions for GET](Self::get_calls) are said to be read-only.
    /// - An error of the function, of its parameters or of a limit is a result with `isError` and the text
    ///   `code: information`. An unknown tool is an error of the protocol. Missing and wrong credentials are
    ///   answered with 401.
    /// - `notifications/cancelled` cancels the request, which is undone; and so does a client that goes away.
    /// - A durable function is submitted by `asyncsteps.jobs:1.0`, if that is hosted and lets the caller do so: it may
    ///   take up to ten minutes, with notifications of its progress. A client that goes away leaves the job running in
    ///   versions of MCP before 2026-07-28, and a `notifications/cancelled` cancels it. Otherwise it is called as others.
    ///
    /// No session is kept: the one that a client gets is a random name for its calls.
    ///
    /// ```
    /// # use asyncsteps_executor::Executor;
    /// # use asyncsteps_transport::http;
    /// # let executor = Executor::builder().build()?;
    /// let service = http::service("/ftn/", executor).mcp("/mcp", "shop", env!("CARGO_PKG_VERSION"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp(mut self, path: &str, name: &str, version: &str) -> Self {
        self.end_point.mcp = Some(Arc::new(mcp::behind(path, name, version)));
        self
    }

    /// Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count; none unless set.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.end_point.proxies = Arc::new(proxies);
        self
    }

    /// Takes all channels as secure: for a service that only a proxy with TLS can reach.
    #[must_use]
    pub fn behind_tls_proxy(mut self) -> Self {
        self.end_point.is_secure = true;
        self
    }
}
