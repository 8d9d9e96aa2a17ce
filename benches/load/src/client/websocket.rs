//! Calls over WebSocket: many at once on each connection, distinguished by their ids.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Uri;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::{MAX_ANSWER, open};

type Stream = WebSocketStream<TcpStream>;

/// The calls of a connection that wait for their answers; `None` when it has ended.
type Calls = Rc<RefCell<Option<HashMap<u64, oneshot::Sender<Bytes>>>>>;

/// A client with a number of connections; one that ended is opened again by the next call on it.
pub(super) struct WebSocketClient {
    uri: Uri,
    connections: Vec<Mutex<Rc<Connection>>>,
    /// Answers without a call.
    pub(super) unasked: Rc<Cell<u64>>,
}

struct Connection {
    sink: Mutex<SplitSink<Stream, Message>>,
    calls: Calls,
}

impl WebSocketClient {
    pub(super) async fn connect(uri: Uri, connections: usize) -> anyhow::Result<Self> {
        let mut client = Self { uri, connections: Vec::new(), unasked: Rc::default() };
        for _ in 0..connections {
            client.connections.push(Mutex::new(Rc::new(client.open().await?)));
        }
        Ok(client)
    }

    /// The answer to the message with this id, which is one more than that of the message before.
    pub(super) async fn send(&self, id: u64, message: Bytes) -> anyhow::Result<Bytes> {
        let connection = self.connection(usize::try_from(id)? % self.connections.len()).await?;
        let (sender, answer) = oneshot::channel();
        let waits = connection.calls.borrow_mut().as_mut().map(|calls| calls.insert(id, sender));
        waits.context("the connection has ended")?;
        connection.sink.lock().await.send(Message::Binary(message)).await?;
        answer.await.context("the connection ended before the answer")
    }

    /// The connection with this number, opened again if it ended.
    async fn connection(&self, number: usize) -> anyhow::Result<Rc<Connection>> {
        let mut connection = self.connections[number].lock().await;
        if connection.calls.borrow().is_none() {
            *connection = Rc::new(self.open().await?);
        }
        Ok(Rc::clone(&connection))
    }

    async fn open(&self) -> anyhow::Result<Connection> {
        let stream = open(&self.uri).await?;
        let limits = WebSocketConfig::default().max_message_size(Some(MAX_ANSWER));
        let opened = client_async_with_config(&self.uri, stream, Some(limits)).await;
        let (stream, _) = opened.context("the server does not speak WebSocket here")?;
        let (sink, stream) = stream.split();
        let calls = Rc::new(RefCell::new(Some(HashMap::new())));
        tokio::task::spawn_local(receive(stream, Rc::clone(&calls), Rc::clone(&self.unasked)));
        Ok(Connection { sink: Mutex::new(sink), calls })
    }
}

/// Passes answers to their calls until the connection ends; then no call waits any more.
async fn receive(mut stream: SplitStream<Stream>, calls: Calls, unasked: Rc<Cell<u64>>) {
    while let Some(Ok(message)) = stream.next().await {
        let answer: Bytes = match message {
            Message::Binary(answer) => answer,
            Message::Text(answer) => answer.into(),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => continue,
        };
        match id_of(&answer).and_then(|id| calls.borrow_mut().as_mut()?.remove(&id)) {
            // an abandoned call does not wait for it
            Some(call) => drop(call.send(answer)),
            None => unasked.set(unasked.get() + 1),
        }
    }
    calls.take();
}

fn id_of(answer: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Head<'a> {
        rid: Option<&'a str>,
    }
    let head: Head<'_> = serde_json::from_slice(answer).ok()?;
    head.rid?.strip_prefix('C')?.parse().ok()
}
