//! What an executor does for an echo at least, written by hand for this one function: a lower bound.
//!
//! The function is found by its name, its parameters are read into types, calls are counted for each client, have a time
//! limit, and are recorded with their begin and end. Nothing is left of interfaces that are loaded, of flows that are
//! looked at, limited in their memory and cancelled, of steps, hooks, traces, and of clients that misbehave.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use actix_rt::time::timeout;
use asyncsteps_actors::clock;
use asyncsteps_core::Time;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};

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
}

#[derive(Serialize)]
struct Answer {
    r: Echo,
}

/// The state of a server.
pub(crate) struct ByHand {
    functions: HashMap<&'static str, fn(Echo) -> Echo>,
    in_flight: RefCell<HashMap<IpAddr, u32>>,
    /// When a call began, and when one ended.
    events: RefCell<VecDeque<(Time, bool)>>,
}

impl ByHand {
    pub(crate) fn new() -> Rc<Self> {
        let echo: fn(Echo) -> Echo = |params| params;
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
        let call = serde_json::from_slice::<Call<'_>>(&body).ok();
        let called = call.and_then(|call| Some((self.functions.get(call.f)?, call.p)));
        let Some((function, params)) = called else {
            let mut refused = Response::new(Full::default());
            *refused.status_mut() = StatusCode::BAD_REQUEST;
            return Ok(refused);
        };
        *self.in_flight.borrow_mut().entry(client).or_default() += 1;
        self.record(false);
        let answer = timeout(LIMIT, async { function(params) }).await;
        self.record(true);
        if let Some(count) = self.in_flight.borrow_mut().get_mut(&client) {
            *count -= 1;
        }
        let answer = answer.ok().and_then(|r| serde_json::to_vec(&Answer { r }).ok());
        let mut response = Response::new(Full::new(answer.unwrap_or_default().into()));
        let media = HeaderValue::from_static("application/futoin+json");
        response.headers_mut().insert(CONTENT_TYPE, media);
        Ok(response)
    }

    fn record(&self, is_end: bool) {
        let mut events = self.events.borrow_mut();
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back((clock::now(), is_end));
    }
}
