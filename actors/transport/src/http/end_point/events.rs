//! Calls by URL whose callers watch them: server-sent events (HTML §9.2) while the function runs, and its reply at the end.

use std::future::ready;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, codes};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::{
    Direction, EventReceiver, Executor, Incoming, Reply, ReplyBody, event_text,
};
use asyncsteps_futoin::Refusal;
use asyncsteps_futoin::iface::Function;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::HeaderName;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use super::super::answer::{Answer, AnswerBody};
use super::super::head::RequestHead;

/// The number of the last event that a client has.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const MEDIA: &str = "text/event-stream";

/// The longest time without a word: proxies end connections on which nothing comes for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Whether the client asks for the events of a function, which raw data has no place beside.
pub(super) fn are_wanted(head: &RequestHead, function: &Function) -> bool {
    let mut accepted = head.get(&ACCEPT).unwrap_or_default().split(',');
    let is_media = |it: &str| it.trim().eq_ignore_ascii_case(MEDIA);
    let is_raw = function.rawupload() || function.rawresult() || head.method() == "HEAD";
    !is_raw && accepted.any(|it| it.split(';').next().is_some_and(is_media))
}

/// A call whose caller watches. Dropping it cancels the call.
pub(super) struct WatchedCall {
    executor: Executor,
    channel: Channel,
    events: EventReceiver,
    reply: LocalBoxFuture<'static, Reply>,
}

impl WatchedCall {
    /// A call that goes on behind the last event that the client has; the reply if it says that wrongly.
    pub(super) fn new(
        executor: &Executor,
        channel: &Channel,
        head: &RequestHead,
        call: Incoming,
    ) -> Result<Self, Reply> {
        let last = head.get(&LAST_EVENT_ID).unwrap_or("0");
        let after = last.trim().parse().map_err(|_| {
            let text = "the header Last-Event-ID is no number of an event";
            executor.refuse(Refusal::new(codes::INVALID_REQUEST, text).into(), channel)
        })?;
        let (call, events) = call.watched(after);
        let (executor, of, channel) = (executor.clone(), executor.clone(), channel.clone());
        let reply = async move { of.dispatch(call).await }.boxed_local();
        Ok(Self { executor, channel, events, reply })
    }

    /// The answer to it; its reply if that is an error which comes before all else.
    pub(super) async fn answer(mut self) -> Result<Answer, Reply> {
        let (first, is_last) = self.next(true).await?;
        let rest = stream::unfold((!is_last).then_some(self), async |call| {
            let mut call = call?;
            let (text, is_last) = call.next(false).await.ok()?;
            Some((text, (!is_last).then_some(call)))
        });
        let chunks = stream::once(ready(first)).chain(rest).map(|it| Ok::<_, Error>(it.into()));
        let mut answer = Answer::new(AnswerBody::Raw(chunks.boxed_local().right_stream()));
        for (name, value) in [(CONTENT_TYPE, MEDIA), (CACHE_CONTROL, "no-store")] {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        Ok(answer)
    }

    /// The next text, and whether it is the last one.
    async fn next(&mut self, is_first: bool) -> Result<(String, bool), Reply> {
        let reply = tokio::select! {
            biased;
            event = self.events.next() => return Ok((event, false)),
            reply = &mut self.reply => reply,
            () = timer::sleep_until(clock::now() + HEARTBEAT) => return Ok((":\n\n".into(), false)),
        };
        let (rest, is_error) = (self.events.rest(), reply.error().is_some());
        if is_first && is_error && rest.is_empty() {
            return Err(reply);
        }
        let message = match reply.into_parts().1 {
            ReplyBody::Message(message) => Bytes::from(message.into_bytes()),
            ReplyBody::Nothing | ReplyBody::Raw(_) => Bytes::from_static(br#"{"r":{}}"#),
        };
        self.executor.trace_message(&message, Direction::Out, &self.channel);
        let kind = if is_error { "error" } else { "result" };
        Ok((rest + &event_text(kind, &String::from_utf8_lossy(&message)), true))
    }
}
