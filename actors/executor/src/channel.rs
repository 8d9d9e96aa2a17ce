//! The connection between an executor and its callers (FTN6 §2.10 ChannelContext).

use std::any::{Any, TypeId};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use asyncsteps_core::{Error, codes};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::{Map, Value};

use asyncsteps_futoin::iface::{Compatibility, Definition, FunctionName, IfaceVer, Version};
use asyncsteps_futoin::net::SourceAddress;

/// The channel of requests: one HTTP request, one WebSocket connection, another node, or the process
/// itself. A cheap handle, for any thread.
///
/// ```
/// use asyncsteps_executor::channel::{Channel, ChannelKind};
///
/// #[derive(Default)]
/// struct Calls(u32);
///
/// let channel = Channel::new(ChannelKind::WebSocket).secured();
/// for _ in 0..3 {
///     channel.with_state(|calls: &mut Calls| calls.0 += 1);
/// }
/// assert_eq!(channel.with_state(|calls: &mut Calls| calls.0), 3);
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Channel {{ kind: {:?}, secure: {:?}, peer: {:?}, .. }}",
    self.0.kind, self.0.secure, self.0.peer
)]
pub struct Channel(Arc<Inner>);

struct Inner {
    kind: ChannelKind,
    secure: bool,
    peer: Option<SocketAddr>,
    peer_client: Option<Arc<dyn PeerClient>>,
    /// Most channels need none.
    life: OnceLock<Box<Mutex<Life>>>,
}

impl Inner {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.get_or_init(Box::default).lock()
    }
}

/// The state that changes while the channel exists.
#[derive(Default)]
struct Life {
    /// By its type. Most channels have none.
    state: Vec<(TypeId, Box<dyn Any + Send>)>,
    handlers: Vec<(u64, Box<dyn FnOnce() + Send>)>,
    handlers_made: u64,
    gone: bool,
    /// The interfaces that the other end implements.
    implemented: Vec<Arc<Definition>>,
}

/// The transports of FTN5, calls between nodes, and in-process calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelKind {
    /// One HTTP request.
    Http,
    /// A WebSocket connection.
    WebSocket,
    /// One call of another node.
    Node,
    /// A call from the same process.
    Local,
}

impl ChannelKind {
    /// Its name in FTN6 §2.10; `NODE` for calls between nodes, which it does not know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::WebSocket => "WS",
            Self::Node => "NODE",
            Self::Local => "LOCAL",
        }
    }
}

/// Carries calls from an executor to the other end; a transport that can do so implements it.
pub trait PeerClient: Send + Sync {
    /// Sends a request for `function` with checked parameters and waits for its answer.
    ///
    /// The future returns the field `r`. It fails with the code and text of an error message, and
    /// with CommError if the connection ends.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the answer: it is forgotten when it comes.
    fn call(&self, function: &FunctionName, params: Map<String, Value>) -> Calling;

    /// Sends a request for a function without a result, which is not answered (FTN3 §1.5): the future
    /// returns null as soon as the connection has taken the request. An answer is ignored.
    ///
    /// # Cancel safety
    /// Dropping the future may keep the request from being sent.
    fn notify(&self, function: &FunctionName, params: Map<String, Value>) -> Calling;
}

/// The future of an answer of the other end.
pub type Calling = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

impl Channel {
    /// A channel that is not secure, of an unknown peer that cannot be called.
    #[must_use]
    pub fn new(kind: ChannelKind) -> Self {
        Self(Arc::new(Inner {
            kind,
            secure: false,
            peer: None,
            peer_client: None,
            life: OnceLock::new(),
        }))
    }

    /// A channel for calls from this process: secure, and trusted with `-internal`.
    #[must_use]
    pub fn local() -> Self {
        Self::new(ChannelKind::Local).secured()
    }

    /// The same as a secure one: no one between the ends can read or change messages. For
    /// transports, before the channel is shared.
    #[must_use]
    pub fn secured(self) -> Self {
        self.changed(|inner| inner.secure = true)
    }

    /// The same with the address of the other end, of the client behind trusted proxies.
    /// For transports, before the channel is shared.
    #[must_use]
    pub fn with_peer(self, peer: impl Into<Option<SocketAddr>>) -> Self {
        self.changed(|inner| inner.peer = peer.into())
    }

    /// The same with a way to call the other end. For transports, before the channel is shared.
    #[must_use]
    pub fn with_peer_client(self, client: Arc<dyn PeerClient>) -> Self {
        self.changed(|inner| inner.peer_client = Some(client))
    }

    fn changed(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        debug_assert!(Arc::get_mut(&mut self.0).is_some(), "a channel is changed while shared");
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(inner);
        }
        self
    }

    /// The transport.
    #[must_use]
    pub fn kind(&self) -> ChannelKind {
        self.0.kind
    }

    /// Whether the channel outlives a request, and its state with it.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        matches!(self.0.kind, ChannelKind::WebSocket | ChannelKind::Local)
    }

    /// Whether a reply may carry raw data and a head (FTN5 §3): over HTTP only.
    #[must_use]
    pub fn carries_raw_data(&self) -> bool {
        self.0.kind == ChannelKind::Http
    }

    /// Whether no one between the ends can read or change messages.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.secure
    }

    /// The address of the other end, if the transport knows it (FTN6 §2.4).
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The address that requests come from, if the transport knows it (FTN6 §2.4): behind trusted
    /// proxies, the address of the client.
    #[must_use]
    pub fn source_address(&self) -> Option<SourceAddress> {
        match self.0.kind {
            ChannelKind::Local => Some(SourceAddress::Local),
            ChannelKind::Http | ChannelKind::WebSocket | ChannelKind::Node => {
                self.0.peer.map(SourceAddress::from)
            }
        }
    }

    /// Whether the other end can be called.
    #[must_use]
    pub fn is_bidirectional(&self) -> bool {
        self.0.peer_client.is_some()
    }

    /// Reads or changes the channel's state of a type, made when it is first used. It is there as
    /// long as the channel. `work` must be short and must not use the channel.
    pub fn with_state<S: Default + Send + 'static, R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        let mut life = self.0.life();
        let known = life.state.iter().position(|(id, _)| *id == TypeId::of::<S>());
        let at = known.unwrap_or_else(|| {
            life.state.push((TypeId::of::<S>(), Box::<S>::default()));
            life.state.len() - 1
        });
        match life.state[at].1.downcast_mut() {
            Some(state) => work(state),
            None => unreachable!("states are kept by their type"),
        }
    }

    /// Sets a handler that runs once when the other end goes away before it got its answers: when a
    /// connection ends, or an HTTP request is abandoned. It runs at once if that has happened. It
    /// must be short: it runs on the thread that notices.
    pub fn on_invoker_abort(&self, handler: impl FnOnce() + Send + 'static) -> AbortHandler {
        let mut life = self.0.life();
        if life.gone {
            drop(life);
            handler();
            return AbortHandler { channel: self.clone(), id: None };
        }
        let id = life.handlers_made;
        life.handlers_made += 1;
        life.handlers.push((id, Box::new(handler)));
        AbortHandler { channel: self.clone(), id: Some(id) }
    }

    /// Says that the other end is gone: runs the handlers of [`on_invoker_abort`](Self::on_invoker_abort) in
    /// their order. For transports; a second time does nothing.
    pub fn close(&self) {
        let handlers = {
            let mut life = self.0.life();
            life.gone = true;
            std::mem::take(&mut life.handlers)
        };
        handlers.into_iter().for_each(|(_, handler)| handler());
    }

    /// Whether the other end is known to be gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.life.get().is_some_and(|life| life.lock().gone)
    }

    /// Registers an interface that the other end implements: its functions can be
    /// [called](Self::call) from now on (FTN6 §2.10 `register`). A definition of the same name and major version is replaced.
    ///
    /// # Errors
    /// InvalidRequest if the channel takes no calls.
    pub fn register(&self, definition: Arc<Definition>) -> Result<(), Error> {
        if !self.is_bidirectional() {
            return Err(one_way());
        }
        let mut life = self.0.life();
        let implemented = &mut life.implemented;
        let same = |other: &Arc<Definition>| {
            other.iface() == definition.iface()
                && other.version().major == definition.version().major
        };
        implemented.retain(|other| !same(other));
        implemented.push(definition);
        Ok(())
    }

    /// Calls a function of an interface that the other end [implements](Self::register); returns
    /// the checked result. For a function without one it returns null, as soon as the request is on
    /// its way: there is no answer to wait for.
    ///
    /// # Errors
    /// What the other end answered; CommError if the connection ends; UnknownInterface, InvokerError
    /// or InternalError if the function, the parameters or the result do not follow the interface;
    /// InvalidRequest if the channel takes no calls.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the answer: it is forgotten when it comes.
    pub fn call(&self, function: &str, params: impl Serialize) -> Calling {
        let begun = self.begin(function, serde_json::to_value(params));
        Box::pin(async move {
            let Begun { calling, definition, called } = begun?;
            let mut result = calling.await?;
            let Some(function) = definition.function(called.func()) else {
                unreachable!("it was found when the call began")
            };
            function
                .check_result(&mut result)
                .map_err(|violation| Error::caused_by(codes::INTERNAL_ERROR, violation))?;
            Ok(result)
        })
    }

    /// An interface that the other end [implements](Self::register), `iface:version`, for calls by the names
    /// of its functions (FTN6 §2.10 `iface`).
    ///
    /// ```
    /// # use asyncsteps_core::Error;
    /// # use asyncsteps_executor::channel::Channel;
    /// # async fn greet(channel: &Channel) -> Result<(), Error> {
    /// let screen = channel.iface("shop.screen:1.0")?;
    /// screen.call("show", serde_json::json!({ "text": "Your order is ready" })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// InvokerError if the text is no interface with its version; UnknownInterface if the other end does
    /// not implement it in a version that serves this one; InvalidRequest if the channel takes no calls.
    pub fn iface(&self, ifacever: &str) -> Result<PeerIface, Error> {
        if !self.is_bidirectional() {
            return Err(one_way());
        }
        let id: IfaceVer = ifacever.parse().map_err(|error| {
            Error::with_info(codes::INVOKER_ERROR, format!("{ifacever}: {error}"))
        })?;
        let definition = self.implemented(id.iface(), id.version(), &id)?;
        Ok(PeerIface { channel: self.clone(), id, definition })
    }

    fn begin(
        &self,
        function: &str,
        params: Result<Value, serde_json::Error>,
    ) -> Result<Begun, Error> {
        let wrong = |info: String| Error::with_info(codes::INVOKER_ERROR, info);
        let client = self.0.peer_client.as_ref().ok_or_else(one_way)?;
        let called: FunctionName =
            function.parse().map_err(|error| wrong(format!("{function}: {error}")))?;
        let definition = self.implemented(called.iface(), called.version(), &called)?;
        let declared = definition
            .function(called.func())
            .ok_or_else(|| wrong(format!("Unknown interface function: {}", called.func())))?;
        let params = params.map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))?;
        let mut params = match params {
            Value::Object(params) => params,
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(wrong(format!("the parameters of {function} are no map")));
            }
        };
        declared
            .check_params(&called, &mut params)
            .map_err(|violation| Error::caused_by(codes::INVOKER_ERROR, violation))?;
        let calling = if declared.has_result() {
            client.call(&called, params)
        } else {
            client.notify(&called, params)
        };
        Ok(Begun { calling, definition, called })
    }

    fn implemented(
        &self,
        iface: &str,
        version: Version,
        wanted: &dyn fmt::Display,
    ) -> Result<Arc<Definition>, Error> {
        let life = self.0.life();
        let serves = |definition: &&Arc<Definition>| {
            definition.iface() == iface
                && definition.version().serves(version) == Compatibility::Served
        };
        life.implemented.iter().find(serves).cloned().ok_or_else(|| {
            let info = format!("the other end does not implement {wanted}");
            Error::with_info(codes::UNKNOWN_INTERFACE, info)
        })
    }
}

struct Begun {
    calling: Calling,
    definition: Arc<Definition>,
    called: FunctionName,
}

fn one_way() -> Error {
    Error::with_info(codes::INVALID_REQUEST, "Bi-Direct Channel is required")
}

/// An interface of the other end; made by [`Channel::iface`]. A cheap handle, for any thread.
#[derive(Clone, Debug)]
pub struct PeerIface {
    channel: Channel,
    id: IfaceVer,
    definition: Arc<Definition>,
}

impl PeerIface {
    /// The definition that the other end was registered with, which may be a newer minor version (FTN7 §2.2
    /// `ifaceInfo`).
    #[must_use]
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Calls a function of the interface, as [`Channel::call`] does.
    ///
    /// # Errors
    /// As for [`Channel::call`].
    ///
    /// # Cancel safety
    /// Dropping the future abandons the answer: it is forgotten when it comes.
    pub fn call(&self, function: &str, params: impl Serialize) -> Calling {
        self.channel.call(&format!("{}:{function}", self.id), params)
    }
}

/// A handler set with [`Channel::on_invoker_abort`]; dropping this takes it back.
#[derive(derive_more::Debug)]
#[debug("AbortHandler {{ set: {:?} }}", self.id.is_some())]
#[must_use = "dropping it takes the handler back; `keep` leaves it"]
pub struct AbortHandler {
    channel: Channel,
    id: Option<u64>,
}

impl AbortHandler {
    /// Leaves the handler as long as the channel is there.
    pub fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for AbortHandler {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut life = self.channel.0.life();
            let at = life.handlers.iter().position(|(other, _)| *other == id);
            let handler = at.map(|at| life.handlers.remove(at));
            // the values that it owns may use the channel
            drop(life);
            drop(handler);
        }
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Channel>();
};

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use expect_test::expect;
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use asyncsteps_futoin::iface::{Loader, Source};

    #[test]
    fn who_waits_for_the_end_is_told_once() {
        let told = Arc::new(Mutex::new(String::new()));
        let tell = |what: &'static str| {
            let told = Arc::clone(&told);
            move || told.lock().push_str(what)
        };
        let channel = Channel::new(ChannelKind::WebSocket);
        channel.on_invoker_abort(tell("kept ")).keep();
        let held = channel.on_invoker_abort(tell("held "));
        drop(channel.on_invoker_abort(tell("taken back ")));
        channel.close();
        channel.close();
        drop(held);
        drop(channel.on_invoker_abort(tell("late")));
        assert_eq!(*told.lock(), "kept held late");
    }

    #[test]
    fn a_handler_may_use_the_channel() {
        let channel = Channel::new(ChannelKind::WebSocket);
        let inner = channel.clone();
        channel.on_invoker_abort(move || inner.with_state(|ended: &mut bool| *ended = true)).keep();
        channel.close();
        assert!(channel.is_closed() && channel.with_state(|ended: &mut bool| *ended));
    }

    /// Answers every call with the same, and counts.
    struct Peer(Value, AtomicUsize);

    impl PeerClient for Peer {
        fn call(&self, _: &FunctionName, _: Map<String, Value>) -> Calling {
            self.1.fetch_add(1, Ordering::Relaxed);
            Box::pin(ready(Ok(self.0.clone())))
        }

        fn notify(&self, _: &FunctionName, _: Map<String, Value>) -> Calling {
            self.1.fetch_add(1, Ordering::Relaxed);
            Box::pin(ready(Ok(Value::Null)))
        }
    }

    fn ping() -> Arc<Definition> {
        let id = "futoin.ping:1.0".parse().expect("a name");
        Loader::new([Source::builtin()]).load(&id).expect("a definition")
    }

    #[test]
    fn calls_to_the_other_end_follow_its_interface() {
        let mut out = String::new();
        let peer = Arc::new(Peer(json!({ "echo": 5 }), AtomicUsize::new(0)));
        let channel = Channel::new(ChannelKind::WebSocket).with_peer_client(peer.clone());
        let call = |function: &str, params: Value| {
            let answer = channel.call(function, params).now_or_never().expect("it is ready");
            answer.map_or_else(|error| error.to_string(), |answer| answer.to_string()) + "\n"
        };
        out += &call("futoin.ping:1.0:ping", json!({ "echo": 5 }));
        channel.register(ping()).unwrap();
        out += &call("futoin.ping:1.0:ping", json!({ "echo": 5 }));
        assert_eq!(peer.1.load(Ordering::Relaxed), 1, "one call could be made");
        out += &call("futoin.ping:1.1:ping", json!({ "echo": 5 }));
        out += &call("futoin.ping:1.0:pong", json!({}));
        out += &call("futoin.ping:1.0:ping", json!({ "echo": "five" }));
        out += &call("futoin.ping:1.0:ping", json!(5));
        out += &call("ping", json!({}));
        assert_eq!(peer.1.load(Ordering::Relaxed), 1, "wrong calls are not made");

        let wrong = Arc::new(Peer(json!({ "echo": "five" }), AtomicUsize::new(0)));
        let channel = Channel::new(ChannelKind::WebSocket).with_peer_client(wrong);
        channel.register(ping()).unwrap();
        let answer = channel.call("futoin.ping:1.0:ping", json!({ "echo": 5 })).now_or_never();
        out += answer.expect("it is ready").unwrap_err().code();
        expect![[r#"
            UnknownInterface: the other end does not implement futoin.ping:1.0:ping
            {"echo":5}
            UnknownInterface: the other end does not implement futoin.ping:1.1:ping
            InvokerError: Unknown interface function: pong
            InvokerError
            InvokerError: the parameters of futoin.ping:1.0:ping are no map
            InvokerError: ping: wrong number of parts
            InternalError"#]]
        .assert_eq(&out);
    }

    #[test]
    fn an_interface_of_the_other_end_is_called_by_the_names_of_its_functions() {
        let peer = Arc::new(Peer(json!({ "echo": 5 }), AtomicUsize::new(0)));
        let channel = Channel::new(ChannelKind::WebSocket).with_peer_client(peer);
        let unknown = channel.iface("futoin.ping:1.0").unwrap_err();
        assert_eq!(unknown.code(), codes::UNKNOWN_INTERFACE);
        channel.register(ping()).unwrap();
        for (name, code) in [
            ("futoin.ping:1.1", codes::UNKNOWN_INTERFACE),
            ("futoin.ping:2.0", codes::UNKNOWN_INTERFACE),
            ("futoin.ping", codes::INVOKER_ERROR),
        ] {
            assert_eq!(channel.iface(name).unwrap_err().code(), code, "{name}");
        }
        let ping = channel.iface("futoin.ping:1.0").unwrap();
        assert!(ping.definition().function("ping").is_some());
        let call = |function: &str, params: Value| {
            ping.call(function, params).now_or_never().expect("it is ready")
        };
        assert_eq!(call("ping", json!({ "echo": 5 })).unwrap(), json!({ "echo": 5 }));
        assert_eq!(call("pong", json!({})).unwrap_err().code(), codes::INVOKER_ERROR);
    }

    #[test]
    fn a_channel_of_one_way_takes_no_calls() {
        let channel = Channel::new(ChannelKind::Http);
        assert_eq!(channel.iface("futoin.ping:1.0").unwrap_err().code(), codes::INVALID_REQUEST);
        assert_eq!(channel.register(ping()).unwrap_err().code(), codes::INVALID_REQUEST);
        let answer = channel.call("futoin.ping:1.0:ping", json!({ "echo": 5 })).now_or_never();
        assert!(answer.is_some_and(|answer| answer.is_err()));
    }
}
