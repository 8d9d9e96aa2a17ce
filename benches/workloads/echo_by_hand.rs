//! What an executor does for an echo at least, written by hand for this one function: a lower bound.
//!
//! The function is found by its name, its parameters are read into types, calls are counted for each client, have a time
//! limit, and are recorded with their begin and end. Nothing is left of interfaces that are loaded, of flows that are
//! looked at, limited in their memory and cancelled, of steps, hooks, traces, and of clients that misbehave.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use actix_rt::net::TcpStream;
use actix_rt::time::timeout;
use asyncsteps_actors::clock;
use asyncsteps_core::Time;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How many events are kept.
const KEPT: usize = 4_096;

#[derive(Serialize, Deserialize)]
struct Echo {
    msg: String,
    n: i32,
    opt: Option<String>,
}

#[derive(Deserialize)]
struct Call<'a> {
    f: &'a str,
    p: Echo,
    rid: Option<&'a str>,
}

type Function = fn(Echo) -> Echo;

#[derive(Serialize)]
struct Answer<'a> {
    r: Echo,
    #[serde(skip_serializing_if = "Option::is_none")]
    rid: Option<&'a str>,
}

/// The state of a server.
pub(crate) struct ByHand {
    functions: HashMap<&'static str, Function>,
    in_flight: RefCell<HashMap<IpAddr, u32>>,
    /// When a call began, and when one ended.
    events: RefCell<VecDeque<(Time, bool)>>,
}

impl ByHand {
    pub(crate) fn new() -> Rc<Self> {
        let echo: Function = |params| params;
        Rc::new(Self {
            functions: HashMap::from([("conform.main:1.2:echo", echo)]),
            in_flight: RefCell::default(),
            events: RefCell::new(VecDeque::with_capacity(KEPT)),
        })
    }

    pub(crate) async fn handle(
        self: Rc<Self>,
        client: IpAddr,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let Some((function, call)) = self.find(&body) else {
            let mut refused = Response::new(Full::default());
            *refused.status_mut() = StatusCode::BAD_REQUEST;
            return Ok(refused);
        };
        let answer = self.call(client, function, call.p).await;
        let answer = answer.and_then(|r| serde_json::to_vec(&Answer { r, rid: call.rid }).ok());
        let mut response = Response::new(Full::new(answer.unwrap_or_default().into()));
        let media = HeaderValue::from_static("application/futoin+json");
        response.headers_mut().insert(CONTENT_TYPE, media);
        Ok(response)
    }

    fn find<'a>(&self, message: &'a [u8]) -> Option<(Function, Call<'a>)> {
        let call = serde_json::from_slice::<Call<'a>>(message).ok()?;
        Some((*self.functions.get(call.f)?, call))
    }

    async fn call(&self, client: IpAddr, function: Function, params: Echo) -> Option<Echo> {
        *self.in_flight.borrow_mut().entry(client).or_default() += 1;
        self.record(false);
        let answer = timeout(LIMIT, async { function(params) }).await;
        self.record(true);
        if let Some(count) = self.in_flight.borrow_mut().get_mut(&client) {
            *count -= 1;
        }
        answer.ok()
    }

    fn record(&self, is_end: bool) {
        let mut events = self.events.borrow_mut();
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back((clock::now(), is_end));
    }
}

/// Serves WebSockets by hand: whoever connects has upgraded when it has sent a head. Frames are binary, of at most
/// 125 bytes, and answered by one each.
pub(crate) async fn serve_web_sockets(listener: TcpListener) {
    listener.set_nonblocking(true).expect("a socket option");
    let listener = actix_rt::net::TcpListener::from_std(listener).expect("a listener");
    let state = ByHand::new();
    while let Ok((stream, peer)) = listener.accept().await {
        stream.set_nodelay(true).expect("a socket option");
        actix_rt::spawn(Rc::clone(&state).serve_web_socket(stream, peer.ip()));
    }
}

impl ByHand {
    async fn serve_web_socket(self: Rc<Self>, mut stream: TcpStream, client: IpAddr) {
        let (mut input, mut output) = (Vec::with_capacity(4_096), Vec::with_capacity(4_096));
        while !input.ends_with(b"\r\n\r\n") {
            if !stream.read_buf(&mut input).await.is_ok_and(|length| length > 0) {
                return;
            }
        }
        input.clear();
        output.extend(b"HTTP/1.1 101 Switching Protocols\r\n\r\n");
        while stream.write_all(&output).await.is_ok() {
            output.clear();
            if !stream.read_buf(&mut input).await.is_ok_and(|length| length > 0) {
                return;
            }
            let mut taken = 0;
            while let [0x82, length, mask @ .., _] = &input[taken..] {
                let length = usize::from(length & 0x7F);
                let Some(mask) = mask.first_chunk::<4>().copied() else { break };
                let end = taken + 6 + length;
                let Some(message) = input.get_mut(taken + 6..end) else { break };
                message.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
                self.answer(client, message, &mut output).await;
                taken = end;
            }
            input.drain(..taken);
        }
    }

    async fn answer(&self, client: IpAddr, message: &[u8], output: &mut Vec<u8>) {
        let Some((function, call)) = self.find(message) else { return };
        let answer = self.call(client, function, call.p).await;
        let Some(answer) =
            answer.and_then(|r| serde_json::to_vec(&Answer { r, rid: call.rid }).ok())
        else {
            return;
        };
        // answers of this bench are short
        output.extend([0x82, u8::try_from(answer.len()).unwrap_or(125)]);
        output.extend(answer);
    }
}
