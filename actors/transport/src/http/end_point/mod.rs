//! The end point of an executor: it answers HTTP requests, whichever server took them.

mod cors;
mod events;
mod origin;
mod problem;
mod reply;
mod route;

use std::future::ready;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::budget::Client;
use asyncsteps_core::codes;
use asyncsteps_futoin::Refusal;
use asyncsteps_futoin::iface::{Definition, Function, FunctionName};
#[cfg(feature = "mcp")]
use asyncsteps_futoin::message::ErrorResult;
use asyncsteps_futoin::message::{Coding, MediaType, Request, Response};
use asyncsteps_futoin::net::TrustedProxies;
use asyncsteps_futoin::url::FunctionUrl;
use bytes::Bytes;
use futures_util::TryFutureExt as _;
#[cfg(feature = "mcp")]
use futures_util::future::LocalBoxFuture;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE,
};
use http::{HeaderName, HeaderValue, StatusCode};

use super::answer::{self, Answer, AnswerBody};
use super::body::{self, Body, BodyError, Room};
use super::head::RequestHead;
use crate::websocket::{WebSocket, WebSocketLimits};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::raw::RawInput;
use asyncsteps_executor::{ClientPermit, Direction, Executor, Incoming, Reply};

use events::WatchedCall;
use problem::Problems;

pub use cors::Cors;
pub(super) use origin::Sites;
pub(super) use problem::{StatusOf, status};
pub(super) use route::Route;

/// The headers of proxies about the connection of their client.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Answers the requests of a service.
#[derive(Clone)]
pub(super) struct EndPoint {
    pub(super) executor: Executor,
    pub(super) web_socket: WebSocketLimits,
    pub(super) sites: Sites,
    pub(super) get_calls: Option<GetCalls>,
    /// Whether errors of calls by URL are problem details, and the statuses of the application's own.
    pub(super) problems: Option<StatusOf>,
    pub(super) proxies: Arc<TrustedProxies>,
    pub(super) is_secure: bool,
    #[cfg(feature = "mcp")]
    pub(super) mcp: Option<Arc<Behind>>,
}

/// What serves a path of its own behind the checks of the end point.
#[cfg(feature = "mcp")]
pub(super) struct Behind {
    pub(super) path: Box<str>,
    pub(super) serve: Box<ServeBehind>,
}

#[cfg(feature = "mcp")]
type ServeBehind =
    dyn Fn(EndPoint, Rc<RequestHead>, Body) -> LocalBoxFuture<'static, Answer> + Send + Sync;

/// Which functions can be called with GET.
pub(super) type GetCalls = Arc<dyn Fn(&FunctionName) -> bool + Send + Sync>;

impl EndPoint {
    /// The meaning of a path, for a service at `base`; `None` if it belongs to another service.
    pub(super) fn route(&self, path: &str, query: &str, base: &str) -> Option<Route> {
        #[cfg(feature = "mcp")]
        if self.mcp.as_ref().is_some_and(|mcp| *mcp.path == *path) {
            return Some(Route::Mcp);
        }
        Route::of(path, query, base)
    }

    /// Answers a request whose path leads here.
    pub(super) async fn serve(&self, head: Rc<RequestHead>, route: Route, body: Body) -> Answer {
        let mut answer = match (self.sites.check(&head), head.method(), route) {
            (Err(why), _, route) => {
                tracing::debug!(why, "a request is refused");
                let problems =
                    self.problems.as_ref().filter(|_| matches!(route, Route::Function(_)));
                let problems =
                    problems.map(|own| Problems { own, schemes: &[], has_credentials: false });
                refusal(StatusCode::FORBIDDEN, codes::SECURITY_ERROR, why, problems.as_ref())
            }
            (Ok(()), "GET", Route::Root) if head.has_upgrade() => self.upgrade(&head),
            (Ok(()), "OPTIONS", _) if self.sites.cors.is_some() => {
                answer::empty(StatusCode::NO_CONTENT)
            }
            (Ok(()), "POST", Route::Root) => self.message(&head, body).await,
            (Ok(()), _, Route::Root) => self.method_not_allowed("POST", None),
            #[cfg(feature = "mcp")]
            (Ok(()), _, Route::Mcp) => match &self.mcp {
                Some(mcp) => (mcp.serve)(self.clone(), Rc::clone(&head), body).await,
                None => answer::empty(StatusCode::NOT_FOUND),
            },
            (Ok(()), _, Route::Function(url)) => self.function(&head, url, body).await,
        };
        if let Some(cors) = &self.sites.cors {
            cors.mark(&head, &mut answer);
        }
        if matches!(head.method(), "GET" | "HEAD") {
            answer::guard(&mut answer);
        }
        // while the executor closes, the next request belongs to another server; and a client whose
        // offer of another protocol is not taken must not believe that it was
        if head.has_own_connection()
            && !matches!(answer.body(), AnswerBody::WebSocket(_))
            && (self.executor.is_closing() || head.offers_upgrade())
        {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// Answers an upgrade to a WebSocket (RFC 6455 §4.2).
    fn upgrade(&self, head: &Rc<RequestHead>) -> Answer {
        let channel = self.channel(head, ChannelKind::WebSocket);
        let answer = WebSocket::accept(head, self.executor.clone(), channel, self.web_socket);
        answer.map(|accepted| match accepted {
            Ok(socket) => AnswerBody::WebSocket(socket),
            Err(why) => AnswerBody::Whole(Bytes::from_static(why.as_bytes())),
        })
    }

    /// A message call (FTN5 §2, use case 1).
    async fn message(&self, head: &Rc<RequestHead>, body: Body) -> Answer {
        let Some(media) = MediaType::parse(head.get(&CONTENT_TYPE)) else {
            let text = "Unsupported media type: a message is application/json";
            return answer::refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                codes::INVALID_REQUEST,
                text,
            );
        };
        if let Some(refused) = refuse_coded(head, None) {
            return refused;
        }
        let media = media.accepting(head.get(&ACCEPT));
        let channel = self.channel(head, ChannelKind::Http);
        let (body, room, permit) = match self.receive(body, &channel).await {
            Ok(received) => received,
            Err(BodyError::Status(status)) => return unread(status, None),
            Err(BodyError::Refused(reply)) => return self.reply(reply, media, &channel),
        };
        self.executor.trace_message(&body, Direction::In, &channel);
        let size = body.len();
        let parsed = Request::parse(&body);
        // a request may wait for long, and its parameters have all of the body
        drop((body, room));
        let reply = match parsed {
            Ok(request) => {
                let incoming = incoming(head, request, channel.clone());
                self.executor.dispatch(incoming.with_size(size).with_client_permit(permit)).await
            }
            Err(refusal) => self.executor.refuse(refusal, &channel),
        };
        self.reply(reply, media, &channel)
    }

    /// Reads a body with a message within the limits of its client, of the executor and of the budget.
    pub(super) async fn receive(
        &self,
        body: Body,
        channel: &Channel,
    ) -> Result<(Bytes, Room, ClientPermit), BodyError> {
        match self.executor.admit(channel).await {
            Ok(permit) => {
                let (body, room) = self.whole(body, channel).await?;
                Ok((body, room, permit))
            }
            Err(refused) => {
                let (limit, time) =
                    (self.executor.max_request_size(), self.executor.request_timeout());
                body::skip(body, limit, time).await;
                Err(BodyError::Refused(Reply::refused(&refused, None, Coding::Json)))
            }
        }
    }

    /// A function by its URL (FTN5 §2, use cases 2 and 3).
    async fn function(
        &self,
        head: &Rc<RequestHead>,
        url: Result<FunctionUrl, Refusal>,
        body: Body,
    ) -> Answer {
        let media = MediaType::default().accepting(head.get(&ACCEPT));
        let channel = self.channel(head, ChannelKind::Http);
        let definition = url.as_ref().ok().and_then(|url| self.executor.definition(url.function()));
        let in_url = url.as_ref().is_ok_and(|url| url.sec().is_some());
        let has_credentials = in_url || head.has(&AUTHORIZATION);
        let problems = self.problems_of(definition.as_deref(), &channel, has_credentials);
        let has_params = has_params(head, &body);
        if has_params && let Some(refused) = refuse_coded(head, problems.as_ref()) {
            return refused;
        }
        let too_large = if has_params { StatusCode::PAYLOAD_TOO_LARGE } else { problem::TOO_LARGE };
        let function = definition.as_deref().zip(url.as_ref().ok());
        let function = function.and_then(|(it, url)| it.function(url.function().func()));
        let watches = function.is_some_and(|function| events::are_wanted(head, function));
        let reply = match (self.executor.admit(&channel).await, url) {
            (Err(refused), _) => Reply::refused(&refused, None, Coding::Json),
            (Ok(_), Err(refusal)) => self.executor.refuse(refusal.into(), &channel),
            (Ok(_), Ok(url)) if !self.allows(head.method(), &url) => {
                match self.executor.unknown(url.function(), &channel) {
                    Some(refused) => Reply::refused(&refused, None, Coding::Json),
                    None if self.allows("GET", &url) => {
                        return self.method_not_allowed("GET, HEAD, POST", problems.as_ref());
                    }
                    None => return self.method_not_allowed("POST", problems.as_ref()),
                }
            }
            (Ok(permit), Ok(url)) => {
                let called = self.called(head, url, definition.as_deref(), body, &channel);
                match called.await.map(|call| call.with_client_permit(permit)) {
                    Ok(call) if watches => {
                        let call = WatchedCall::new(&self.executor, &channel, head, call);
                        match ready(call).and_then(WatchedCall::answer).await {
                            Ok(answer) => return answer,
                            Err(reply) => reply,
                        }
                    }
                    Ok(call) => self.executor.dispatch(call).await,
                    Err(BodyError::Refused(reply)) => reply,
                    Err(BodyError::Status(status)) => return unread(status, problems.as_ref()),
                }
            }
        };
        self.answer(reply, media, too_large, problems.as_ref(), &channel)
    }

    /// The call of a URL. Its body is raw data, or parameters where the function takes no raw data.
    async fn called(
        &self,
        head: &Rc<RequestHead>,
        url: FunctionUrl,
        definition: Option<&Definition>,
        body: Body,
        channel: &Channel,
    ) -> Result<Incoming, BodyError> {
        let name = url.function().func().to_owned();
        let function = definition.and_then(|definition| definition.function(&name));
        let takes_raw = function.is_some_and(Function::rawupload);
        let request = url.into_request(function);
        let size = head.path().len() + head.query().len();
        if takes_raw || !has_params(head, &body) {
            let input = (takes_raw || has_raw(head, &body)).then(|| input(head, body));
            return Ok(incoming(head, request, channel.clone()).with_size(size).with_input(input));
        }
        let (params, _room) = self.whole(body, channel).await?;
        let request = request.with_body(&params);
        let refused = |refusal: Refusal| self.executor.refuse(refusal.into(), channel);
        let request = request.map_err(|refusal| BodyError::Refused(refused(refusal)))?;
        Ok(incoming(head, request, channel.clone()).with_size(size + params.len()))
    }

    /// The whole body of a request, with the room that it takes.
    async fn whole(&self, body: Body, channel: &Channel) -> Result<(Bytes, Room), BodyError> {
        let (limit, time) = (self.executor.max_request_size(), self.executor.request_timeout());
        let client = channel.peer().map_or(Client::Unknown, Client::from);
        let mut room = body.room(&self.executor, &client);
        Ok((body::read(body, limit, time, &mut room).await?, room))
    }

    /// Whether a function may be called by this method. HEAD is GET without the body of the answer, which the server
    /// leaves out.
    fn allows(&self, method: &str, url: &FunctionUrl) -> bool {
        match method {
            "POST" => true,
            "GET" | "HEAD" => self.get_calls.as_ref().is_none_or(|allowed| allowed(url.function())),
            _ => false,
        }
    }

    fn method_not_allowed(&self, allowed: &str, problems: Option<&Problems<'_>>) -> Answer {
        let options = if self.sites.cors.is_some() { ", OPTIONS" } else { "" };
        let allowed = format!("{allowed}{options}");
        let (status, text) = (StatusCode::METHOD_NOT_ALLOWED, format!("Methods: {allowed}"));
        let mut answer = match problems {
            Some(_) => refusal(status, codes::INVALID_REQUEST, &text, problems),
            None => answer::empty(status),
        };
        answer.headers_mut().extend(HeaderValue::try_from(allowed).ok().map(|it| (ALLOW, it)));
        answer
    }

    /// How the errors of a call by URL are answered, if not by messages.
    fn problems_of(
        &self,
        called: Option<&Definition>,
        channel: &Channel,
        has_credentials: bool,
    ) -> Option<Problems<'_>> {
        let own = self.problems.as_ref()?;
        Some(Problems { own, schemes: self.schemes(called, channel), has_credentials })
    }

    /// The schemes of credentials that help a caller over this channel.
    pub(super) fn schemes(&self, called: Option<&Definition>, channel: &Channel) -> &[&str] {
        let in_vain = called.is_some_and(|it| {
            it.requires("MessageSignature")
                || (it.requires("SecureChannel") && !channel.is_secure())
        });
        self.executor.auth_schemes().filter(|_| !in_vain).unwrap_or_default()
    }

    /// The answer to a request without the credentials that its function needs.
    #[cfg(feature = "mcp")]
    pub(super) fn unauthorized(&self, error: &ErrorResult) -> Answer {
        let (own, schemes) = (Arc::new(|_: &str| None) as StatusOf, self.executor.auth_schemes());
        let schemes = schemes.unwrap_or_default();
        let problems = Problems { own: &own, schemes, has_credentials: false };
        let text = error.description.as_deref().unwrap_or_default();
        let mut answer = refusal(StatusCode::UNAUTHORIZED, &error.code, text, Some(&problems));
        problems.challenge(answer.headers_mut());
        answer
    }

    pub(super) fn reply(&self, reply: Reply, media: MediaType, channel: &Channel) -> Answer {
        self.answer(reply, media, StatusCode::PAYLOAD_TOO_LARGE, None, channel)
    }

    fn answer(
        &self,
        reply: Reply,
        media: MediaType,
        too_large: StatusCode,
        problems: Option<&Problems<'_>>,
        channel: &Channel,
    ) -> Answer {
        reply::answer(reply, media, too_large, problems, |message| {
            self.executor.trace_message(message, Direction::Out, channel);
        })
    }

    /// The way this request came.
    pub(super) fn channel(&self, head: &RequestHead, kind: ChannelKind) -> Channel {
        let channel = match self.is_secure || head.is_secure() {
            true => Channel::new(kind).secured(),
            false => Channel::new(kind),
        };
        let Some(peer) = head.peer() else { return channel };
        if !self.proxies.trusts(peer.ip()) {
            return channel.with_peer(peer);
        }
        let forwarded_for: Vec<_> = head.values(&FORWARDED_FOR).collect();
        let client = self.proxies.client(peer.ip(), forwarded_for);
        let client = if client == peer.ip() { peer } else { SocketAddr::new(client, 0) };
        // the nearest proxy wrote the last one
        let scheme = head.values(&FORWARDED_PROTO).last();
        let scheme = scheme.and_then(|schemes| schemes.rsplit(',').next());
        let forwarded = scheme.is_some_and(|scheme| scheme.trim().eq_ignore_ascii_case("https"));
        let channel = if forwarded { channel.secured() } else { channel };
        channel.with_peer(client)
    }
}

/// A request with the head of its HTTP request.
pub(super) fn incoming(head: &Rc<RequestHead>, request: Request, channel: Channel) -> Incoming {
    Incoming::new(request, channel)
        .with_credentials(head.credentials())
        .with_transport_memory(head.size())
        .with_headers(Rc::clone(head) as _)
}

/// Whether a request has raw data, be it empty.
fn has_raw(head: &RequestHead, body: &Body) -> bool {
    let is_raw = |media: &str| media.starts_with("application/octet-stream");
    body.length().is_none_or(|length| length > 0) || head.get(&CONTENT_TYPE).is_some_and(is_raw)
}

/// Whether the body of a request for the URL of a function may be its parameters.
fn has_params(head: &RequestHead, body: &Body) -> bool {
    let media = head.get(&CONTENT_TYPE).and_then(|media| media.split(';').next());
    head.method() == "POST"
        && body.length() != Some(0)
        && media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// The refusal of a message or parameters that are compressed or encrypted, which are read as they come (RFC 9110
/// §15.5.16).
fn refuse_coded(head: &RequestHead, problems: Option<&Problems<'_>>) -> Option<Answer> {
    let coding = head.get(&CONTENT_ENCODING)?;
    if coding.trim().eq_ignore_ascii_case("identity") {
        return None;
    }
    let text = "Unsupported content coding: a body is sent without one";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let mut answer = refusal(status, codes::INVALID_REQUEST, text, problems);
    answer.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(answer)
}

/// The raw data of a request.
fn input(head: &RequestHead, body: Body) -> RawInput {
    let length = head.get(&CONTENT_LENGTH).and_then(|length| length.parse().ok());
    RawInput::new(body)
        .with_content_type(head.get(&CONTENT_TYPE).map(str::to_owned))
        .with_length(length)
}

/// The answer to a request whose body is not read to its end, so that the connection ends too.
pub(super) fn unread(status: StatusCode, problems: Option<&Problems<'_>>) -> Answer {
    let text = status.canonical_reason().unwrap_or_default();
    let mut answer = match problems {
        Some(_) => refusal(status, codes::INVALID_REQUEST, text, problems),
        None => answer::empty(status),
    };
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The answer to a request that is not dispatched: a problem where errors are `problems`, else a message.
fn refusal(status: StatusCode, code: &str, text: &str, problems: Option<&Problems<'_>>) -> Answer {
    let Some(problems) = problems else { return answer::refusal(status, code, text) };
    let (status, body) = problems.of(status, &Response::error(code, Some(text)));
    let mut answer = answer::with_type(problem::MEDIA, body);
    *answer.status_mut() = status;
    answer
}
