//! Calls from here to the other end of a connection (FTN6 §2.10).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Error, Time, codes};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::{Coding, Request, Response, Rid};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use asyncsteps_executor::channel::{Calling, PeerClient};

/// Calls that may wait in the queue of a connection; more wait in their flows.
const WAITING: usize = 16;

/// The number of unanswered calls from which abandoned ones are removed.
const FORGET_AT: usize = 64;

/// Takes calls from flows; the channel of a connection has it.
pub(super) struct Outgoing {
    /// In boxes, because a queue has the memory of many elements when it is empty.
    connection: mpsc::Sender<Box<Call>>,
    /// Limits the calls that are not answered.
    places: Arc<Semaphore>,
}

/// A call on its way out.
pub(super) struct Call {
    function: FunctionName,
    params: Map<String, Value>,
    /// `None` if there will be no answer.
    answer: Option<Answer>,
}

type Answer = oneshot::Sender<Result<Value, Error>>;

/// The calls of one connection that wait for answers.
#[derive(Debug)]
pub(super) struct Calls {
    /// In the order in which they were made, which is also the order of their time limits.
    waiting: BTreeMap<u64, Waiting>,
    made: u64,
    timeout: Duration,
    forget_at: usize,
}

#[derive(Debug)]
struct Waiting {
    answer: Answer,
    due: Time,
}

impl Outgoing {
    /// For at most `calls` calls at once.
    pub(super) fn new(calls: usize) -> (Self, mpsc::Receiver<Box<Call>>) {
        let (connection, receiver) = mpsc::channel(WAITING);
        let places = Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS)));
        (Self { connection, places }, receiver)
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Error::with_info(codes::DEFENSE_REJECTED, "Too many calls to the other end")
        })
    }

    /// Passes a call to the connection when there is room.
    fn send(&self, call: Call) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let connection = self.connection.clone();
        async move { connection.send(Box::new(call)).await.map_err(|_| gone()) }
    }
}

impl PeerClient for Outgoing {
    fn call(&self, function: &FunctionName, params: Map<String, Value>) -> Calling {
        let (answer, told) = oneshot::channel();
        let sent = self.send(Call { function: function.clone(), params, answer: Some(answer) });
        let place = self.enter();
        Box::pin(async move {
            let _place = place?;
            sent.await?;
            told.await.unwrap_or_else(|_| Err(gone()))
        })
    }

    fn notify(&self, function: &FunctionName, params: Map<String, Value>) -> Calling {
        let sent = self.send(Call { function: function.clone(), params, answer: None });
        let place = self.enter();
        Box::pin(async move {
            let _place = place?;
            sent.await.map(|()| Value::Null)
        })
    }
}

impl Calls {
    /// No calls yet; each will have so much time for its answer.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { waiting: BTreeMap::new(), made: 0, timeout, forget_at: FORGET_AT }
    }

    /// Appends the message of a call to `out`; its answer will have the id that it gets here.
    pub(super) fn begin(&mut self, call: Call, now: Time, out: &mut Vec<u8>) {
        if self.waiting.len() >= self.forget_at {
            self.waiting.retain(|_, waiting| !waiting.answer.is_closed());
            self.forget_at = FORGET_AT.max(2 * self.waiting.len());
        }
        self.made += 1;
        if let Some(answer) = call.answer {
            self.waiting.insert(self.made, Waiting { answer, due: now + self.timeout });
        }
        let request = Request::new(call.function.as_str(), call.params);
        if let Some(rid) = Rid::new(format!("S{}", self.made).into()) {
            request.with_rid(rid).write(Coding::Json, None, out);
        }
    }

    /// How many answers may come.
    pub(super) fn expected(&self) -> usize {
        self.waiting.len()
    }

    /// When the next answer is late.
    pub(super) fn due(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.due)
    }

    /// Ends the calls whose answers are late.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(first) = self.waiting.first_entry()
            && first.get().due <= now
        {
            let late = Error::with_info(codes::TIMEOUT, "the other end did not answer in time");
            // the call may have been abandoned
            let _ = first.remove().answer.send(Err(late));
        }
    }

    /// Takes an answer to a call. An answer to an abandoned call is dropped.
    pub(super) fn answer(&mut self, response: Response) {
        let rid = response.rid().and_then(|rid| rid.as_value().as_str());
        let number = rid.and_then(|rid| rid.strip_prefix('S')).and_then(|rid| rid.parse().ok());
        if let Some(waiting) = number.and_then(|number: u64| self.waiting.remove(&number)) {
            // the call may have been abandoned
            let _ = waiting.answer.send(
                response
                    .into_result()
                    .map_err(|error| Error::with_info(error.code, error.description)),
            );
        }
    }
}

fn gone() -> Error {
    Error::with_info(codes::COMM_ERROR, "the connection ended")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn call(calls: &mut Calls) -> oneshot::Receiver<Result<Value, Error>> {
        let (answer, told) = oneshot::channel();
        let function: FunctionName = "a.b:1.0:f".parse().unwrap();
        let params = Map::from_iter([("n".to_owned(), calls.made.into())]);
        let mut message = Vec::new();
        calls.begin(Call { function, params, answer: Some(answer) }, Time::ZERO, &mut message);
        let (n, rid) = (calls.made - 1, calls.made);
        let expected = json!({ "f": "a.b:1.0:f", "p": { "n": n }, "rid": format!("S{rid}") });
        assert_eq!(serde_json::from_slice::<Value>(&message).unwrap(), expected);
        told
    }

    fn with_rid(response: Response, rid: Value) -> Response {
        response.with_rid(Rid::new(rid).as_ref())
    }

    #[test]
    fn answers_find_their_calls() {
        let mut calls = Calls::new(TIMEOUT);
        let (mut first, mut second) = (call(&mut calls), call(&mut calls));
        calls.answer(with_rid(Response::success(json!({ "ack": 2 })), json!("S2")));
        calls.answer(with_rid(Response::error("MyError", Some("why")), json!("S1")));
        assert_eq!(second.try_recv().unwrap().unwrap(), json!({ "ack": 2 }));
        let error = first.try_recv().unwrap().unwrap_err();
        assert_eq!((error.code(), error.info()), ("MyError", Some("why")));
    }

    #[test]
    fn late_and_unknown_answers_are_forgotten() {
        let mut calls = Calls::new(TIMEOUT);
        let mut told = call(&mut calls);
        for rid in [json!("S2"), json!("S"), json!("Sx"), json!("C1"), json!("1"), json!(1)] {
            calls.answer(with_rid(Response::success(json!(1)), rid));
        }
        calls.answer(Response::success(json!(1)));
        assert!(told.try_recv().is_err());
        calls.answer(with_rid(Response::success(json!(5)), json!("S1")));
        assert_eq!(told.try_recv().unwrap().unwrap(), json!(5));
        calls.answer(with_rid(Response::success(json!(6)), json!("S1")));
    }

    #[test]
    fn calls_that_were_given_up_are_forgotten() {
        let mut calls = Calls::new(TIMEOUT);
        let kept = call(&mut calls);
        for _ in 0..10_000 {
            drop(call(&mut calls));
        }
        assert!(calls.waiting.len() < 100, "{}", calls.waiting.len());
        assert!(calls.waiting.contains_key(&1));
        drop(kept);
    }

    #[test]
    fn calls_over_the_limit_are_refused_at_once() {
        let (outgoing, _connection) = Outgoing::new(2);
        let function: FunctionName = "a.b:1.0:f".parse().unwrap();
        let mut calls: Vec<_> = (0..2).map(|_| outgoing.call(&function, Map::new())).collect();
        assert!(calls.iter_mut().all(|call| call.now_or_never().is_none()));
        for refused in
            [outgoing.call(&function, Map::new()), outgoing.notify(&function, Map::new())]
        {
            let refused = refused.now_or_never().expect("at once").unwrap_err();
            assert_eq!(refused.code(), "DefenseRejected");
        }
        // an abandoned one makes room
        calls.pop();
        assert!(outgoing.notify(&function, Map::new()).now_or_never().is_some_and(|it| it.is_ok()));
    }

    #[test]
    fn answers_that_are_late_are_not_waited_for() {
        let mut calls = Calls::new(TIMEOUT);
        let mut told = call(&mut calls);
        let due = calls.due().expect("one waits");
        assert_eq!(due, Time::ZERO + TIMEOUT);
        calls.expire(Time::ZERO);
        assert!(told.try_recv().is_err());
        calls.expire(due);
        assert_eq!(told.try_recv().unwrap().unwrap_err().code(), "Timeout");
        assert_eq!((calls.due(), calls.expected()), (None, 0));
    }
}
