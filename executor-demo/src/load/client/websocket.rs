//! Calls over WebSocket: many at once on each connection, distinguished by their ids.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::MAX_ANSWER;
use super::target::Target;

type Stream = WebSocketStream<TcpStream>;

/// A client with a number of connections; one that ended is opened again by the next call on it.
pub(super) struct WebSocketClient {
    target: Target,
    connections: Vec<Mutex<Rc<Connection>>>,
    next: Cell<usize>,
    /// Answers without a call, on connections that ended.
    unasked: Cell<u64>,
}

struct Connection {
    sink: Mutex<SplitSink<Stream, Message>>,
    waiting: Rc<Waiting>,
}

/// The calls of a connection that wait for their answers.
#[derive(Default)]
struct Waiting {
    calls: RefCell<HashMap<u64, oneshot::Sender<Bytes>>>,
    is_over: Cell<bool>,
    unasked: Cell<u64>,
}

impl WebSocketClient {
    pub(super) async fn connect(
        target: &Target,
        connections: NonZeroUsize,
    ) -> anyhow::Result<Self> {
        let mut opened = Vec::new();
        for _ in 0..connections.get() {
            opened.push(Mutex::new(Rc::new(Connection::open(target).await?)));
        }
        let (next, unasked) = (Cell::new(0), Cell::new(0));
        Ok(Self { target: target.clone(), connections: opened, next, unasked })
    }

    pub(super) async fn send(&self, id: u64, message: Bytes) -> anyhow::Result<Bytes> {
        let next = self.next.get();
        self.next.set(next.wrapping_add(1));
        let connection = self.open(next % self.connections.len()).await?;
        connection.send(id, message).await
    }

    pub(super) async fn unasked(&self) -> u64 {
        let mut unasked = self.unasked.get();
        for connection in &self.connections {
            unasked += connection.lock().await.waiting.unasked.get();
        }
        unasked
    }

    /// The connection with this number, opened again if it ended.
    async fn open(&self, number: usize) -> anyhow::Result<Rc<Connection>> {
        let mut connection = self.connections[number].lock().await;
        if connection.waiting.is_over.get() {
            let again = Connection::open(&self.target).await?;
            self.unasked.set(self.unasked.get() + connection.waiting.unasked.get());
            *connection = Rc::new(again);
        }
        Ok(Rc::clone(&connection))
    }
}

impl Connection {
    async fn open(target: &Target) -> anyhow::Result<Self> {
        let stream = target.open().await?;
        let url = format!("ws://{}{}", target.authority, target.path);
        let limits = WebSocketConfig::default().max_message_size(Some(MAX_ANSWER));
        let opened = client_async_with_config(url, stream, Some(limits)).await;
        let (stream, _) = opened.context("the server does not speak WebSocket here")?;
        let (sink, stream) = stream.split();
        let waiting = Rc::new(Waiting::default());
        tokio::task::spawn_local(receive(stream, Rc::clone(&waiting)));
        Ok(Self { sink: Mutex::new(sink), waiting })
    }

    async fn send(&self, id: u64, message: Bytes) -> anyhow::Result<Bytes> {
        let answer = self.waiting.add(id)?;
        self.sink.lock().await.send(Message::Binary(message)).await?;
        answer.await.context("the connection ended before the answer")
    }
}

impl Waiting {
    fn add(&self, id: u64) -> anyhow::Result<oneshot::Receiver<Bytes>> {
        ensure!(!self.is_over.get(), "the connection is over");
        let (sender, receiver) = oneshot::channel();
        self.calls.borrow_mut().insert(id, sender);
        Ok(receiver)
    }

    fn answered(&self, answer: Bytes) {
        let call = id_of(&answer).and_then(|id| self.calls.borrow_mut().remove(&id));
        match call {
            // an abandoned call does not wait for it
            Some(call) => drop(call.send(answer)),
            None => self.unasked.set(self.unasked.get() + 1),
        }
    }
}

/// Passes answers to their calls until the connection ends; then no call waits any more.
async fn receive(mut stream: SplitStream<Stream>, waiting: Rc<Waiting>) {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(answer) => waiting.answered(answer),
            Message::Text(answer) => waiting.answered(answer.into()),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
        }
    }
    waiting.is_over.set(true);
    waiting.calls.borrow_mut().clear();
}

fn id_of(answer: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Head<'a> {
        rid: Option<&'a str>,
    }
    let head: Head<'_> = serde_json::from_slice(answer).ok()?;
    head.rid?.strip_prefix('C')?.parse().ok()
}
