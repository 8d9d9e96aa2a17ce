//! Events that bodies emit while their request runs.

use asyncsteps_core::{Error, codes};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cx::Cx;
use super::service::Service;

/// The parameters of a function whose bodies emit events of this type, for readers who watch the request.
pub trait Emits {
    /// What the bodies emit.
    type Event: Serialize + DeserializeOwned;
}

impl<S: Service, P: Emits> Cx<S, P> {
    /// Emits an event, once for the step: it is stored when this completes. A body that runs again, because an attempt has
    /// failed or its process died, emits nothing again: the first value stays, and so does its place among the events. The
    /// undo of the step is another step.
    ///
    /// The host of a [durable](crate::recorder) request keeps its events, outside of the history of the request. Of
    /// others only a caller that [watches](crate::Incoming::watched) gets them, such as with `text/event-stream` over
    /// HTTP, and those of each attempt: nothing is kept, and no body waits for the caller, which loses events if it is slow,
    /// and those over 16 KiB.
    ///
    /// ```
    /// # use asyncsteps_executor::plan::Emits;
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # use serde::{Deserialize, Serialize};
    /// struct Order;
    ///
    /// #[derive(Serialize, Deserialize)]
    /// enum Progress {
    ///     Packed { boxes: u32 },
    ///     Sent,
    /// }
    ///
    /// impl Emits for Order {
    ///     type Event = Progress;
    /// }
    ///
    /// fn order(steps: &Steps<(), Order>) -> Returns<()> {
    ///     steps
    ///         .run("pack", async |cx, ()| {
    ///             cx.emit(&Progress::Packed { boxes: 2 }).await?;
    ///             cx.emit_as("sent", &Progress::Sent).await?;
    ///             Ok(())
    ///         })
    ///         .recorded()
    ///         .returns()
    /// }
    /// ```
    ///
    /// # Errors
    /// InternalError if the event cannot be written as JSON; and of a durable request if it is too large, or the request has
    /// emitted as much as it may.
    ///
    /// # Cancel safety
    /// If the future is dropped, the event may be stored or not.
    pub async fn emit(&self, event: &P::Event) -> Result<(), Error> {
        self.emit_as("", event).await
    }

    /// The same, once for the step and each key: text of up to 4 KiB.
    ///
    /// # Errors
    /// Those of [`emit`](Self::emit).
    pub async fn emit_as(&self, key: &str, event: &P::Event) -> Result<(), Error> {
        let failed = |cause| Error::caused_by(codes::INTERNAL_ERROR, cause);
        if let Some(recorder) = self.context.recorder() {
            return recorder.emit(key, serde_json::to_value(event).map_err(failed)?).await;
        }
        if let Some(events) = self.request().events() {
            events.emit(&serde_json::to_string(event).map_err(failed)?);
        }
        Ok(())
    }
}
