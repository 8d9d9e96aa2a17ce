//! The OpenAPI document of a service.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use asyncsteps_executor::{FunctionInfo, InterfaceInfo};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::openapi::{self, HttpFront};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tower_service::Service as TowerService;

use super::Service;
use super::end_point::status;

/// Describes what `service` accepts to tools that do not know FutoIn: to people in Swagger UI, to
/// generators of clients. It is an OpenAPI 3.1 document, and a [tower](https://docs.rs/tower) service that
/// answers with it.
///
/// Each function that is implemented is an operation at its URL. The document follows the service's
/// options, so set those first. It shows interfaces that need credentials, too, to everyone who may
/// read it. What the callers of a service have no use for is left out, unless the document is asked for with the query
/// `all`: the operation of messages, functions of the security level System, the interfaces of this library
/// (`asyncsteps.*`), and functions for users if the executor has no security provider.
///
/// ```
/// use asyncsteps_executor::Executor;
/// use asyncsteps_transport::http::{self, Server};
///
/// # let executor = Executor::builder().build()?;
/// let service = http::service("/ftn/", executor).problem_details(|_| None);
/// let openapi = http::openapi(&service, "Shop", env!("CARGO_PKG_VERSION"))
///     .example("demo.shop:1.0:stock", serde_json::json!({ "sku": "apple" }));
/// println!("{:#}", openapi.document());
/// let server = Server::new(service).page("/openapi.json", openapi);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn openapi(service: &Service, title: &str, version: &str) -> OpenApi {
    let (title, version) = (title.into(), version.into());
    let examples = Arc::default();
    OpenApi { service: service.clone(), title, version, examples, written: Arc::default() }
}

/// An OpenAPI document, and a service that answers with it; see [`openapi()`]. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
pub struct OpenApi {
    service: Service,
    title: Arc<str>,
    version: Arc<str>,
    examples: Arc<BTreeMap<String, Value>>,
    /// The document without and with everything as text, and of how many interfaces it is: they are added while
    /// requests are served.
    #[debug(skip)]
    written: Arc<Mutex<[(usize, String); 2]>>,
}

impl OpenApi {
    /// The same with these parameters of a function, an object, as an example of them.
    #[must_use]
    pub fn example(mut self, function: &str, params: Value) -> Self {
        Arc::make_mut(&mut self.examples).insert(function.to_owned(), params);
        self
    }

    /// The document, of the interfaces that are hosted now.
    #[must_use]
    pub fn document(&self) -> Value {
        self.described(false)
    }

    /// The same with what it leaves out.
    #[must_use]
    pub fn document_of_all(&self) -> Value {
        self.described(true)
    }

    fn described(&self, all: bool) -> Value {
        let Service { path, end_point, .. } = &self.service;
        let schemes = end_point.executor.auth_schemes();
        let catalog = end_point.executor.catalog();
        let interfaces = catalog.interfaces.iter();
        let shown: BTreeSet<String> = interfaces
            .flat_map(|interface| {
                let (iface, version) = (&interface.iface, &interface.version);
                let functions = interface.functions.iter().filter(|it| it.implemented);
                let shown =
                    functions.filter(|it| all || is_shown(interface, it, schemes.is_some()));
                shown.map(move |it| format!("{iface}:{version}:{}", it.name))
            })
            .collect();
        let methods = |name: &FunctionName| -> &'static [&'static str] {
            match &end_point.get_calls {
                _ if !shown.contains(name.as_str()) => &[],
                Some(allowed) if !allowed(name) => &["post"],
                _ => &["get", "post"],
            }
        };
        let problem_status = end_point.problems.as_ref();
        let problem_status = problem_status.map(|own| {
            move |code: &str| match status(code, own) {
                StatusCode::UNAUTHORIZED if schemes.is_none() => StatusCode::FORBIDDEN.as_u16(),
                status => status.as_u16(),
            }
        });
        let front = HttpFront {
            title: &self.title,
            version: &self.version,
            path: &format!("{path}/"),
            methods: &methods,
            schemes: schemes.unwrap_or(&["Basic"]),
            problem_status: problem_status.as_ref().map(|status| status as &dyn Fn(&str) -> u16),
            messages: all,
            examples: &self.examples,
        };
        openapi::document(&end_point.executor.definitions(), &front)
    }

    fn text(&self, all: bool) -> String {
        let hosted = self.service.end_point.executor.definitions().len();
        let mut written = self.written.lock();
        let written = &mut written[usize::from(all)];
        if written.1.is_empty() || written.0 != hosted {
            *written = (hosted, self.described(all).to_string());
        }
        written.1.clone()
    }
}

/// Whether callers of a service have a use for a function.
fn is_shown(interface: &InterfaceInfo, function: &FunctionInfo, has_users: bool) -> bool {
    let is_open = interface.requires.iter().any(|it| it == "AllowAnonymous");
    match function.seclvl.as_deref() {
        _ if interface.iface.starts_with("asyncsteps.") => false,
        Some("System") => false,
        None | Some("Anonymous") => is_open || has_users,
        Some(_) => has_users,
    }
}

impl<B> TowerService<Request<B>> for OpenApi {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut answer = Response::new(String::new());
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            *answer.body_mut() = self.text(asks_for_all(request.uri().query()));
            let fields = [
                (CONTENT_TYPE, "application/json"),
                (CACHE_CONTROL, "no-cache"),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            answer
                .headers_mut()
                .extend(fields.map(|(name, it)| (name, HeaderValue::from_static(it))));
        } else {
            *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        ready(Ok(answer))
    }
}

/// Whether a query has `all`, with a value or without.
fn asks_for_all(query: Option<&str>) -> bool {
    let mut parts = query.unwrap_or_default().split('&');
    parts.any(|part| part.split('=').next() == Some("all"))
}
