//! What a program has beside steps: values that tell when they are dropped, and futures.

use std::pin::Pin;
use std::task::{Context, Poll};

use asyncsteps_core::{Args, Error};

use super::engine::{Here, args};
use super::program::{self, Id, Outside, Wait};

/// A value with the lifetime of a step.
pub(crate) struct Kept {
    pub(crate) here: Here,
    pub(crate) id: Id,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.here.log(format!("-{}", self.id));
    }
}

/// A future that is ready at its time; an abandoned one never is.
pub(crate) struct Awaited {
    here: Here,
    wait: Wait,
    state: Awaiting,
}

enum Awaiting {
    New,
    Until(u64),
    Over,
}

impl Awaited {
    pub(crate) fn new(here: Here, wait: Wait) -> Self {
        Self { here, wait, state: Awaiting::New }
    }
}

impl Future for Awaited {
    type Output = Result<Args, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let now = self.here.world.now.get();
        let Wait { pause, .. } = self.wait;
        match self.state {
            Awaiting::Until(end) if now >= end => {}
            Awaiting::Until(_) => return Poll::Pending,
            Awaiting::New => {
                let abandoned = matches!(self.wait.result, Outside::Abandoned);
                self.state = Awaiting::Until(if abandoned { u64::MAX } else { pause.end(now) });
                let waker = cx.waker().clone();
                self.here.after(pause, move || waker.wake());
                return Poll::Pending;
            }
            Awaiting::Over => unreachable!("it was ready before"),
        }
        self.state = Awaiting::Over;
        Poll::Ready(match &self.wait.result {
            Outside::Success(values) => Ok(args(values)),
            Outside::Error(info) => {
                let info = program::info(pause.id, *info);
                Err(Error::with_info(program::code(pause.id), info))
            }
            Outside::Abandoned => unreachable!("it is never ready"),
        })
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Awaiting::Until(_) = self.state {
            self.here.log(format!("~{}", self.wait.pause.id));
        }
    }
}
