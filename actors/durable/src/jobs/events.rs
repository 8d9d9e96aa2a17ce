//! The function `events` of `asyncsteps.jobs:1.0`: a stream of server-sent events (HTML §9.2).

use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::raw::RawOutput;
use asyncsteps_executor::{Cx, event_text};

use super::params::{WatchedJob, whole};
use super::service::{Jobs, job_error, visible};
use crate::events::text_of;

/// The longest time without a word: proxies end connections on which nothing comes for a minute. The request's own limit,
/// which counts from the last chunk, may be shorter.
const HEARTBEAT: Duration = Duration::from_secs(15);

impl Jobs {
    pub(super) async fn events(cx: &Cx<Self, WatchedJob>) -> BodyResult<RawOutput> {
        let uid = visible(cx, &cx.params.uid).await?;
        let after = match cx.request().received()?.header("last-event-id") {
            Some(last) => last.parse().map_err(|_| {
                let info = "the header Last-Event-ID is no number of an event";
                Error::with_info(codes::INVALID_REQUEST, info)
            })?,
            None => whole(cx.params.after),
        };
        let (mut reader, executor) = (cx.durable.event_reader(uid, after), cx.request().executor());
        let mut output = cx.raw_output("text/event-stream")?;
        loop {
            let limit = cx.request().time_left().unwrap_or(Duration::MAX);
            let heartbeat = clock::now() + HEARTBEAT.min(limit / 2);
            let events = tokio::select! {
                biased;
                events = reader.next() => events.map_err(|error| job_error(cx, error))?,
                // the client goes on elsewhere
                () = executor.closing() => return Ok(output),
                () = timer::sleep_until(heartbeat) => {
                    output.write(":\n\n").await?;
                    continue;
                }
            };
            if events.is_empty() {
                output.write(event_text("end", "null")).await?;
                return Ok(output);
            }
            output.write(text_of(&events)?).await?;
        }
    }
}
