//! Calls from here to the other end of a connection (FTN6 §2.10).

use std::collections::HashMap;

use asyncsteps::{Error, codes};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::channel::{Caller, Calling};
use crate::iface::FunctionName;
use crate::message::{Coding, Request, Response, Rid};

/// Calls that may wait until the connection takes them; more wait in their flows.
const WAITING: usize = 16;

/// Where flows put calls; a channel has it.
pub(super) struct Outgoing(mpsc::Sender<Call>);

/// A call on its way out.
pub(super) struct Call {
    function: FunctionName,
    params: Map<String, Value>,
    /// `None` if there will be no answer.
    answer: Option<Answer>,
}

type Answer = oneshot::Sender<Result<Value, Error>>;

/// The calls of one connection that wait for answers.
#[derive(Debug, Default)]
pub(super) struct Calls {
    waiting: HashMap<u64, Answer>,
    made: u64,
}

impl Outgoing {
    pub(super) fn new() -> (Self, mpsc::Receiver<Call>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Gives a call to the connection when there is room.
    fn send(&self, call: Call) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let connection = self.0.clone();
        async move { connection.send(call).await.map_err(|_| gone()) }
    }
}

impl Caller for Outgoing {
    fn call(&self, function: &FunctionName, params: Map<String, Value>) -> Calling {
        let (answer, told) = oneshot::channel();
        let sent = self.send(Call { function: function.clone(), params, answer: Some(answer) });
        Box::pin(async move {
            sent.await?;
            told.await.unwrap_or_else(|_| Err(gone()))
        })
    }

    fn notify(&self, function: &FunctionName, params: Map<String, Value>) -> Calling {
        let sent = self.send(Call { function: function.clone(), params, answer: None });
        Box::pin(async move { sent.await.map(|()| Value::Null) })
    }
}

impl Calls {
    /// Appends the message of a call to `out`; its answer will have the id that it gets here.
    pub(super) fn begin(&mut self, call: Call, out: &mut Vec<u8>) {
        if self.waiting.len() == self.waiting.capacity() {
            // before it grows: nobody waits any more for some of the answers
            self.waiting.retain(|_, answer| !answer.is_closed());
        }
        self.made += 1;
        if let Some(answer) = call.answer {
            self.waiting.insert(self.made, answer);
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

    /// Takes an answer to a call. One that nobody waits for is forgotten.
    pub(super) fn answer(&mut self, response: Response) {
        let rid = response.rid().and_then(|rid| rid.as_value().as_str());
        let number = rid.and_then(|rid| rid.strip_prefix('S')).and_then(|rid| rid.parse().ok());
        if let Some(answer) = number.and_then(|number: u64| self.waiting.remove(&number)) {
            // nobody may wait any more
            let _ = answer.send(
                response
                    .into_result()
                    .map_err(|(code, description)| Error::with_info(code, description)),
            );
        }
    }
}

fn gone() -> Error {
    Error::with_info(codes::COMM_ERROR, "the connection ended")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(calls: &mut Calls) -> oneshot::Receiver<Result<Value, Error>> {
        let (answer, told) = oneshot::channel();
        let function: FunctionName = "a.b:1.0:f".parse().unwrap();
        let params = Map::from_iter([("n".to_owned(), calls.made.into())]);
        let mut message = Vec::new();
        calls.begin(Call { function, params, answer: Some(answer) }, &mut message);
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
        let mut calls = Calls::default();
        let (mut first, mut second) = (call(&mut calls), call(&mut calls));
        calls.answer(with_rid(Response::success(json!({ "ack": 2 })), json!("S2")));
        calls.answer(with_rid(Response::error("MyError", Some("why")), json!("S1")));
        assert_eq!(second.try_recv().unwrap().unwrap(), json!({ "ack": 2 }));
        let error = first.try_recv().unwrap().unwrap_err();
        assert_eq!((error.code(), error.info()), ("MyError", Some("why")));
    }

    #[test]
    fn late_and_unknown_answers_are_forgotten() {
        let mut calls = Calls::default();
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
        let mut calls = Calls::default();
        let kept = call(&mut calls);
        for _ in 0..10_000 {
            drop(call(&mut calls));
        }
        assert!(calls.waiting.len() < 100, "{}", calls.waiting.len());
        assert!(calls.waiting.contains_key(&1));
        drop(kept);
    }
}
