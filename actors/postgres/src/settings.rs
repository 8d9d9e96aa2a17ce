//! What a session begins with, and that it keeps it.

use std::future::poll_fn;
use std::time::Duration;

use futures_util::future::try_join;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Error, SimpleQueryMessage};

use crate::{Connected, DialError};

/// Names and values, as the server shows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Vec<(&'static str, String)>);

impl Settings {
    pub(crate) fn new(settings: &[(&'static str, &str)]) -> Self {
        Self(settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    /// Sets them for the session, and reads them in another transaction, which is sent at once behind the first.
    pub(crate) async fn set(&self, mut connected: Connected) -> Result<Connected, DialError> {
        if self.0.is_empty() {
            return Ok(connected);
        }
        let (client, connection) = &mut connected;
        let each = |sql: fn(&(&'static str, String)) -> String| {
            format!("SELECT {}", self.0.iter().map(sql).collect::<Vec<_>>().join(", "))
        };
        let set = each(|(name, value)| format!("set_config('{name}', '{value}', false)"));
        let show = each(|(name, _)| format!("current_setting('{name}')"));
        let asked = try_join(client.batch_execute(&set), client.simple_query(&show));
        let ((), messages) = read_for(connection, asked).await?;
        for (at, (name, value)) in self.0.iter().enumerate() {
            let found = messages.iter().find_map(|message| {
                if let SimpleQueryMessage::Row(row) = message { row.get(at) } else { None }
            });
            if found != Some(value) {
                let found = found.unwrap_or_default();
                let why = format!("`{name}` is `{found}` after it was set to `{value}`");
                return Err(DialError::NotKept(why));
            }
        }
        Ok(connected)
    }
}

/// Fails unless a session that waits gets a notice of another one in time.
pub(crate) async fn is_notified(
    (waits, mut connection): Connected,
    (other, mut others): Connected,
    bound: Duration,
) -> Result<(), DialError> {
    // what comes before the answer is left out: a pooler may have lent the connection meanwhile
    read_for(&mut connection, waits.batch_execute("LISTEN asyncsteps_session")).await?;
    read_for(&mut others, other.batch_execute("NOTIFY asyncsteps_session")).await?;
    let late = || DialError::NotKept("a session gets no notice of another one".to_owned());
    let notified = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message?, AsyncMessage::Notification(_)) {
                return Ok(());
            }
        }
        Err(late())
    };
    timeout(bound, notified).await.unwrap_or_else(|_| Err(late()))
}

/// Waits for an answer that nothing else reads from the connection.
async fn read_for<T>(
    connection: &mut (impl Future<Output = Result<(), Error>> + Unpin),
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        answer = asked => answer,
        Err(error) = connection => Err(error),
    }
}
