//! Steps whose host does what their bodies give.

use std::cell::OnceCell;
use std::rc::Rc;

use asyncsteps_core::{Arguments, Flow};

use super::context::{Cx, Service};
use super::step::{Step, Transacted};
use super::steps::Steps;
use crate::recorder::{Kind, StepRecorder, Transactor};

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step whose body gives work, which the host of a durable request does in one transaction with the
    /// record of its result. In other requests it is done alone. Otherwise as [`run`](Self::run).
    #[track_caller]
    pub fn transacted<A, W, T, F>(
        &mut self,
        name: &'static str,
        transactor: Transactor<W, T>,
        body: F,
    ) -> Step<'_, S, P, A, T, Transacted>
    where
        A: Arguments,
        W: 'static,
        T: 'static,
        F: Fn(&Cx<S, P>, A) -> W + 'static,
    {
        Step::transacted(&mut self.flow, &self.cx, name, transactor, body)
    }
}

impl<'a, S: Service, P: 'static, A, T: 'static, K> Step<'a, S, P, A, T, K> {
    /// [`Steps::transacted`] for a step that takes the result of this one.
    #[track_caller]
    pub fn then_transacted<W, U, F>(
        self,
        name: &'static str,
        transactor: Transactor<W, U>,
        body: F,
    ) -> Step<'a, S, P, (T,), U, Transacted>
    where
        W: 'static,
        U: 'static,
        F: Fn(&Cx<S, P>, T) -> W + 'static,
    {
        let Self { flow, cx, .. } = self;
        Step::transacted(flow, cx, name, transactor, move |cx, (value,)| body(cx, value))
    }
}

impl<'a, S, P, A, T> Step<'a, S, P, A, T, Transacted>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
{
    #[track_caller]
    fn transacted<W, F>(
        flow: &'a mut Flow,
        cx: &'a Cx<S, P>,
        name: &'static str,
        transactor: Transactor<W, T>,
        body: F,
    ) -> Self
    where
        W: 'static,
        F: Fn(&Cx<S, P>, A) -> W + 'static,
    {
        let Transactor { codec, work, alone } = transactor;
        let memory = Rc::new(OnceCell::<Rc<dyn StepRecorder>>::new());
        let of_body = Rc::clone(&memory);
        let step = Step::add(flow, cx, name, async move |cx: &Cx<S, P>, args| {
            let given = body(cx, args);
            match of_body.get() {
                Some(memory) => {
                    let stored = memory.transact(cx.attempt(), work(given)).await?;
                    Ok((codec.read)(&stored)?)
                }
                None => alone(given).await,
            }
        });
        if let Some(remembered) = &step.remembered {
            let _ = memory.set(Rc::clone(&remembered.memory));
        }
        step.stored_by_host(Kind::Transacted, codec).of_kind()
    }
}
