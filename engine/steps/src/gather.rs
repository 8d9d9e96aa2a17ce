//! Several futures in the body of one step (FTN12 §1.13): each is polled when it was woken, and not
//! when another one was.
//!
//! [`AsyncSteps::each`](crate::AsyncSteps::each), `race` and `join` are steps around these functions.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::error::{Error, StepError, codes};

/// Runs `body` for each item, at most `at_once` at a time; returns the results in the order of the
/// items. The first error drops the others. If there are others, the error says that the
/// [outcome](Error::outcome_unknown) of the whole is unknown.
///
/// # Errors
/// The first error of `body`.
///
/// # Cancel safety
/// Dropping the future drops all that runs.
pub async fn each<I, R, F>(items: I, at_once: usize, body: &F) -> Result<Vec<R>, StepError>
where
    I: IntoIterator,
    F: AsyncFn(I::Item) -> Result<R, StepError>,
{
    let mut results: Vec<Option<R>> = Vec::new();
    let mut tasks = Tasks::new(items.into_iter().map(|item| body(item)), at_once);
    poll_fn(|cx| {
        tasks.poll(cx, |number, result| {
            if results.len() <= number {
                results.resize_with(number + 1, || None);
            }
            results[number] = Some(result?);
            Ok::<(), StepError>(())
        })
    })
    .await
    .map_err(|error| among(error, tasks.started > 1))?;
    Ok(results.into_iter().flatten().collect())
}

/// Runs `body` for all items at once; returns the result of the first that succeeds and drops the
/// others, or the last error. If there are several items, that error says that the
/// [outcome](Error::outcome_unknown) of the whole is unknown.
///
/// # Errors
/// The last error of `body`, if no item succeeds; InternalError if there are no items.
///
/// # Cancel safety
/// Dropping the future drops all that runs.
pub async fn race<I, R, F>(items: I, body: &F) -> Result<R, StepError>
where
    I: IntoIterator,
    F: AsyncFn(I::Item) -> Result<R, StepError>,
{
    let none = Error::with_info(codes::INTERNAL_ERROR, "a race without items");
    let mut last = StepError::error(none);
    let mut tasks = Tasks::new(items.into_iter().map(|item| body(item)), usize::MAX);
    let ended = poll_fn(|cx| {
        tasks.poll(cx, |_, result| match result {
            Ok(value) => Err(value),
            Err(error) => {
                last = error;
                Ok(())
            }
        })
    });
    match ended.await {
        Err(winner) => Ok(winner),
        Ok(()) => Err(among(last, tasks.started > 1)),
    }
}

/// Polls both at once and returns both results; the first error drops the other one. If the other one
/// had begun, the error says that the [outcome](Error::outcome_unknown) of the whole is unknown.
///
/// # Errors
/// The first error of either.
///
/// # Cancel safety
/// Dropping the future drops both.
pub async fn join<A, B>(
    one: impl Future<Output = Result<A, StepError>>,
    other: impl Future<Output = Result<B, StepError>>,
) -> Result<(A, B), StepError> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut a, mut b) = (None, None);
    let mut other_began = false;
    poll_fn(|cx| {
        if a.is_none()
            && let Poll::Ready(result) = one.as_mut().poll(cx)
        {
            a = Some(result.map_err(|error| among(error, other_began))?);
        }
        other_began = true;
        if b.is_none()
            && let Poll::Ready(result) = other.as_mut().poll(cx)
        {
            b = Some(result.map_err(|error| among(error, true))?);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready(Ok((a, b))),
            ended => {
                (a, b) = ended;
                Poll::Pending
            }
        }
    })
    .await
}

/// The error of one of several futures: the outcome of the others is unknown.
fn among(error: StepError, others_began: bool) -> StepError {
    if others_began { error.into_error().outcome_unknown().into() } else { error }
}

/// How often futures that wake themselves are polled again before other flows get their turn: as many
/// as a flow has steps in a turn.
const AGAIN: usize = 100;

/// Futures of one kind, started as there is room for them.
struct Tasks<I: Iterator> {
    futures: I,
    /// The futures that started and are not over, by their slots.
    running: Vec<Option<GatherTask<I::Item>>>,
    free: Vec<usize>,
    started: usize,
    at_once: usize,
    woken: Arc<Woken>,
}

struct GatherTask<F> {
    /// Its number in the order of the items.
    number: usize,
    future: Pin<Box<F>>,
}

/// The slots of the futures that were woken.
#[derive(Default)]
struct Woken(Mutex<(Vec<usize>, Option<Waker>)>);

struct WakeSlot {
    woken: Arc<Woken>,
    slot: usize,
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, (Vec<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for WakeSlot {
    fn wake(self: Arc<Self>) {
        let waker = {
            let mut woken = self.woken.lock();
            woken.0.push(self.slot);
            woken.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<I> Tasks<I>
where
    I: Iterator<Item: Future>,
{
    fn new(futures: I, at_once: usize) -> Self {
        Self {
            futures,
            running: Vec::new(),
            free: Vec::new(),
            started: 0,
            at_once: at_once.max(1),
            woken: Arc::default(),
        }
    }

    /// Polls the futures that were woken until all have ended, or `ended` breaks with a value. Futures
    /// that wake themselves are polled again in a later turn.
    fn poll<B>(
        &mut self,
        cx: &Context<'_>,
        mut ended: impl FnMut(usize, <I::Item as Future>::Output) -> Result<(), B>,
    ) -> Poll<Result<(), B>> {
        let (mut polls, started) = (0, self.started);
        loop {
            self.start();
            if polls > AGAIN + (self.started - started) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let woken = {
                let mut woken = self.woken.lock();
                woken.1 = Some(cx.waker().clone());
                mem::take(&mut woken.0)
            };
            if self.running.len() == self.free.len() {
                return Poll::Ready(Ok(()));
            }
            if woken.is_empty() {
                return Poll::Pending;
            }
            polls += woken.len();
            for slot in woken {
                let Some(task) = self.running.get_mut(slot).and_then(Option::as_mut) else {
                    continue;
                };
                let waker =
                    Waker::from(Arc::new(WakeSlot { woken: Arc::clone(&self.woken), slot }));
                if let Poll::Ready(output) =
                    task.future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    let number = task.number;
                    self.running[slot] = None;
                    self.free.push(slot);
                    if let Err(value) = ended(number, output) {
                        return Poll::Ready(Err(value));
                    }
                }
            }
        }
    }

    /// Starts futures as long as there is room.
    fn start(&mut self) {
        while self.running.len() - self.free.len() < self.at_once
            && let Some(future) = self.futures.next()
        {
            let task = Some(GatherTask { number: self.started, future: Box::pin(future) });
            self.started += 1;
            let slot = match self.free.pop() {
                Some(slot) => {
                    self.running[slot] = task;
                    slot
                }
                None => {
                    self.running.push(task);
                    self.running.len() - 1
                }
            };
            self.woken.lock().0.push(slot);
        }
    }
}
