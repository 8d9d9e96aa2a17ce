//! A promise that settles by the clock of the program (FORMAT.md, op `await`).

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use asyncsteps_core::Error;
use serde_json::Value;

use super::program::Promised;
use super::trace::What;
use super::world::{Due, Inhabitant};

/// What the clock and the awaiting step share.
#[derive(Default)]
struct Settling {
    settled: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The awaiting side; dropping it early cancels the promise.
pub(crate) struct Promise {
    settling: Rc<Settling>,
    result: Option<Result<Value, Error>>,
    on_cancel: Option<(Inhabitant, String, String)>,
    awaited: bool,
}

impl Promise {
    pub(crate) fn new(of: &Inhabitant, path: &str, spec: &Promised) -> Self {
        let settling = Rc::new(Settling::default());
        if spec.after.0 == 0 {
            settling.settled.set(true);
        } else {
            let settling = Rc::clone(&settling);
            let settle = move || {
                settling.settled.set(true);
                if let Some(waker) = settling.waker.take() {
                    waker.wake();
                }
            };
            of.world.after(spec.after, Due::Act(Box::new(settle)));
        }
        let result = match &spec.reject {
            Some(code) => Err(Error::new(code.clone())),
            None => Ok(spec.resolve.clone()),
        };
        let on_cancel =
            spec.cancel.as_ref().map(|label| (of.clone(), path.to_owned(), label.clone()));
        Self { settling, result: Some(result), on_cancel, awaited: false }
    }
}

impl Future for Promise {
    type Output = Result<(Value,), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.awaited = true;
        if !self.settling.settled.get() {
            self.settling.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        match self.result.take() {
            Some(result) => Poll::Ready(result.map(|value| (value,))),
            None => Poll::Pending,
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some((inhabitant, path, label)) = &self.on_cancel
            && self.awaited
            && !self.settling.settled.get()
        {
            inhabitant.emit(path, What::Cancel { l: label.clone() });
        }
    }
}
