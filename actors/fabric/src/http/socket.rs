//! The connection of a service over WebSocket, opened when it is needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asyncsteps_executor::message::Response;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tower_service::Service;

use super::config::Config;
use super::connector::Connector;
use super::sent::{Sent, with_causes};
use super::session::{Channel, SocketSession};
use super::url::ServiceUrl;
use crate::call_error::CallError;

/// Calls one service.
#[derive(Debug)]
pub(super) struct ServiceSocket {
    connector: Connector,
    url: ServiceUrl,
    max_message: usize,
    connect_timeout: Duration,
    /// The open connection. Locked while one is opened, so that there is one at most.
    session: Mutex<Option<SocketSession>>,
    made: AtomicU64,
}

impl ServiceSocket {
    pub(super) fn new(connector: Connector, url: ServiceUrl, config: &Config) -> Self {
        Self {
            connector,
            url,
            max_message: config.max_message,
            connect_timeout: config.connect_timeout,
            session: Mutex::default(),
            made: AtomicU64::new(1),
        }
    }

    /// A number for the next call.
    pub(super) fn number(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends the message of a call with this number and waits for its answer.
    pub(super) async fn exchange(
        &self,
        number: u64,
        message: Bytes,
        sent: &Sent,
    ) -> Result<Response, CallError> {
        self.session().await?.exchange(number, message, sent).await
    }

    /// The open connection, or a new one.
    async fn session(&self) -> Result<SocketSession, CallError> {
        let mut session = self.session.lock().await;
        match &*session {
            Some(open) if !open.is_over() => Ok(open.clone()),
            _ => {
                let opens = tokio::time::timeout(self.connect_timeout, self.open());
                let channel =
                    opens.await.map_err(|_| CallError::connect("not connected in time"))?;
                Ok(session.insert(SocketSession::start(channel?)).clone())
            }
        }
    }

    async fn open(&self) -> Result<Channel, CallError> {
        let connected = self.connector.clone().call(self.url.http.clone()).await;
        let stream = connected.map_err(|error| CallError::connect(with_causes(&*error)))?;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(self.max_message))
            .max_frame_size(Some(self.max_message));
        let stream = TokioIo::new(stream);
        let opened = client_async_with_config(self.url.websocket(), stream, Some(limits)).await;
        let (channel, _) = opened.map_err(|error| {
            let error = with_causes(&error);
            CallError::connect(format!("the service speaks no WebSocket here: {error}"))
        })?;
        Ok(channel)
    }
}
