//! Arbiters for flows: placement and shutdown.
//!
//! A flow stays where it was started: [`start_flow`](crate::flow::start_flow) never leaves its
//! arbiter. A [`Host`] is for what has no place yet: it owns arbiters, starts a flow on the one with
//! the fewest flows when it is asked to, and ends all of their flows, however they were started.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use actix::{Arbiter, ArbiterHandle};
use asyncsteps::{Arguments, Error, Execution, Outcome, Time, codes};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use crate::clock;
use crate::flow::{End, IntoFlow, Owner, Site, Submission, earliest, host};

/// Arbiters that run flows.
///
/// Dropping it stops the arbiters, which cancels their flows; [`shutdown`](Self::shutdown) lets them
/// finish.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use asyncsteps::Template;
/// use asyncsteps_actors::host::Host;
///
/// let double = Template::build(|asi| {
///     asi.add(|asi, n: i32| asi.success(n * 2));
/// });
/// actix::System::new().block_on(async {
///     let host = Host::new(NonZeroUsize::MIN);
///     let doubled = host.submit_anywhere::<i32>((double, 21));
///     assert_eq!(doubled.await.unwrap(), 42);
///     assert_eq!(host.shutdown(Duration::from_secs(1)).await.cancelled, 0);
/// });
/// ```
#[derive(Debug)]
pub struct Host {
    members: Vec<Member>,
}

struct Member {
    /// Taken when it is joined.
    arbiter: Option<Arbiter>,
    handle: ArbiterHandle,
    site: Arc<Site>,
}

/// What [`Host::shutdown`] did with the flows that were alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Ended by themselves.
    pub finished: usize,
    /// Cancelled: at the deadline, by their own, or by whoever started them.
    pub cancelled: usize,
}

impl Host {
    /// Starts so many arbiters, each with its thread.
    ///
    /// # Panics
    /// Outside of an actix system, or if a thread cannot be started.
    #[must_use]
    pub fn new(arbiters: NonZeroUsize) -> Self {
        Self { members: (0..arbiters.get()).map(|_| Member::new()).collect() }
    }

    /// The arbiters, to start servers, actors or flows there.
    #[must_use]
    pub fn arbiters(&self) -> impl ExactSizeIterator<Item = &ArbiterHandle> {
        self.members.iter().map(|member| &member.handle)
    }

    /// How many flows each arbiter has, those on their way included; those that never waited are
    /// not seen. `None` for an arbiter that is gone.
    #[must_use]
    pub fn load(&self) -> Vec<Option<usize>> {
        self.members.iter().map(|member| member.site.load()).collect()
    }

    /// Starts a flow on the arbiter that has the fewest.
    ///
    /// A deadline is inherited and counts from now. The flow is made there, so `job` is a template,
    /// one with arguments, or a function that makes a flow.
    pub fn submit_anywhere<A>(&self, job: impl IntoFlow + Send + 'static) -> Submitted<A>
    where
        A: Arguments + Send,
    {
        let loads = self.members.iter().filter_map(|member| Some((member, member.site.load()?)));
        match loads.min_by_key(|(_, load)| *load) {
            Some((member, _)) => member.submit(job),
            None => Submitted::refused(gone()),
        }
    }

    /// Starts a flow on one of the [`arbiters`](Self::arbiters), by its place there.
    ///
    /// A place that does not exist refuses the flow, as an arbiter that is gone does.
    pub fn submit_to<A>(&self, arbiter: usize, job: impl IntoFlow + Send + 'static) -> Submitted<A>
    where
        A: Arguments + Send,
    {
        match self.members.get(arbiter) {
            Some(member) => member.submit(job),
            None => Submitted::refused(gone()),
        }
    }

    /// Refuses new submissions with DefenseRejected, waits until all flows of the arbiters are over,
    /// at most `grace`, then cancels the rest: their cancel handlers run. Ends the arbiters and waits
    /// for their threads, so for a step that blocks, too.
    ///
    /// Flows that were submitted before may start others as long as the grace lasts.
    ///
    /// # Cancel safety
    /// Dropping the future stops the arbiters without waiting for them.
    pub async fn shutdown(mut self, grace: Duration) -> Ended {
        self.members.iter().for_each(|member| member.site.close());
        let idle = async {
            for member in &self.members {
                member.site.idle().await;
            }
        };
        // whatever is left then is cancelled with its arbiter
        let _ = tokio::time::timeout(grace, idle).await;
        self.stop();
        let arbiters: Vec<Arbiter> =
            self.members.iter_mut().filter_map(|member| member.arbiter.take()).collect();
        let joined = tokio::task::spawn_blocking(|| {
            for arbiter in arbiters {
                if arbiter.join().is_err() {
                    tracing::error!("an arbiter panicked");
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!("the runtime ended before the arbiters did");
        }
        let ended = self.members.iter().map(|member| member.site.ended());
        ended.fold(Ended { finished: 0, cancelled: 0 }, |sum, (finished, cancelled)| Ended {
            finished: sum.finished + finished,
            cancelled: sum.cancelled + cancelled,
        })
    }

    fn stop(&self) {
        // false for an arbiter that is gone
        let _: usize = self.members.iter().filter(|member| member.handle.stop()).count();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Member {
    fn new() -> Self {
        let arbiter = Arbiter::new();
        let (site, handle) = (Arc::<Site>::default(), arbiter.handle());
        let settles = Arc::clone(&site);
        // nothing else can reach it before
        arbiter.spawn_fn(move || settles.settle());
        Self { arbiter: Some(arbiter), handle, site }
    }

    fn submit<A>(&self, job: impl IntoFlow + Send + 'static) -> Submitted<A>
    where
        A: Arguments + Send,
    {
        let Some(submission) = self.site.submit() else {
            let why = "Host is closing";
            return Submitted::refused(Error::with_info(codes::DEFENSE_REJECTED, why));
        };
        let own = job.limit().map(|limit| clock::now() + limit);
        // each arbiter has its own epoch
        let deadline = earliest(own).map(clock::instant);
        let detached = Arc::new(AtomicBool::new(false));
        let (reply, answer) = oneshot::channel();
        let waits = Submitter { reply: Some(reply), detached: Arc::clone(&detached) };
        let span = Span::current();
        // false if the arbiter is gone: then the reply is dropped, which tells the submitter
        let _: bool = self.handle.spawn_fn(move || begin(job, waits, deadline, span, submission));
        Submitted { state: State::Waits { answer, detached }, of: PhantomData }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("load", &self.site.load()).finish_non_exhaustive()
    }
}

/// On the arbiter: makes the flow and runs its first turn.
fn begin<A: Arguments + Send>(
    job: impl IntoFlow,
    mut submitter: Submitter<A>,
    deadline: Option<Instant>,
    span: Span,
    submission: Submission,
) {
    if submitter.is_gone() {
        return;
    }
    let made = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| job.into_flow())));
    let Ok(flow) = made else {
        tracing::error!(parent: &span, "the function that makes a flow panicked");
        submission.end(true);
        submitter.tell(Err(Error::with_info(codes::INTERNAL_ERROR, "the flow was not made")));
        return;
    };
    let deadline = deadline.map(clock::time);
    // its owner ends it
    drop(host(flow, Box::new(Remote { submitter, submission: Some(submission), deadline, span })));
}

fn gone() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "the arbiter is gone")
}

/// A flow on another arbiter: a future with its result, for any thread. Dropping it cancels the flow.
///
/// It fails with DefenseRejected if the host is closing, and with InternalError if the arbiter ends
/// before the flow.
///
/// # Cancel safety
/// Polling may stop at any time; the result stays until it is taken.
#[must_use = "dropping it cancels the flow; `detach` it to let it run"]
pub struct Submitted<A = ()> {
    state: State<A>,
    of: PhantomData<fn() -> A>,
}

enum State<A> {
    Refused(Option<Error>),
    Waits { answer: oneshot::Receiver<Result<A, Error>>, detached: Arc<AtomicBool> },
}

impl<A> Submitted<A> {
    fn refused(error: Error) -> Self {
        Self { state: State::Refused(Some(error)), of: PhantomData }
    }

    /// Cancels the flow (FTN12 §2.2.3 `cancel`): its arbiter does so after this returned. A flow
    /// that is over stays as it ended.
    pub fn cancel(&mut self) {
        if let State::Waits { answer, .. } = &mut self.state {
            answer.close();
        }
    }

    /// Lets the flow run to its end without anybody waiting for it.
    pub fn detach(self) {
        if let State::Waits { detached, .. } = &self.state {
            detached.store(true, Ordering::SeqCst);
        }
    }
}

impl<A: Arguments + Send> Future for Submitted<A> {
    /// The typed result of the flow, or the error that ended it.
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Refused(error) => Poll::Ready(Err(error.take().unwrap_or_else(gone))),
            State::Waits { answer, .. } => {
                Pin::new(answer).poll(cx).map(|told| told.unwrap_or_else(|_| Err(gone())))
            }
        }
    }
}

impl<A> fmt::Debug for Submitted<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").finish_non_exhaustive()
    }
}

/// Who submitted a flow, seen from its arbiter.
struct Submitter<A> {
    reply: Option<oneshot::Sender<Result<A, Error>>>,
    detached: Arc<AtomicBool>,
}

impl<A> Submitter<A> {
    fn is_gone(&self) -> bool {
        let closed = self.reply.as_ref().is_none_or(oneshot::Sender::is_closed);
        // a submitter detaches before it goes
        closed && !self.detached.load(Ordering::SeqCst)
    }

    fn tell(&mut self, result: Result<A, Error>) {
        if let Some(reply) = self.reply.take() {
            // whoever detached does not listen
            let _ = reply.send(result);
        }
    }
}

/// The owner of a submitted flow.
struct Remote<A> {
    submitter: Submitter<A>,
    /// Until the flow ends.
    submission: Option<Submission>,
    deadline: Option<Time>,
    span: Span,
}

impl<A: Arguments> Owner for Box<Remote<A>> {
    const COUNTS: bool = true;

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = match &mut self.submitter.reply {
            Some(reply) => reply.poll_closed(cx).is_ready(),
            None => true,
        };
        if closed && self.submitter.is_gone() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn span(&self) -> Option<&Span> {
        Some(&self.span)
    }

    fn ended(&mut self, _: &mut Execution, end: End) -> Option<Outcome> {
        if let Some(submission) = self.submission.take() {
            submission.end(matches!(end, End::Flow(_)));
        }
        self.submitter.tell(end.into_outcome().into_result());
        None
    }
}

const _: () = {
    const fn any_thread<T: Send>() {}
    any_thread::<Host>();
    any_thread::<Submitted<String>>();
};
