//! Steps whose host does what their bodies return.

use super::cx::Cx;
use super::read::Read;
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;
use crate::recorder::{BodyEnd, Kind, Transactor};

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step whose body returns work, which the host of a durable request does in one transaction with the
    /// record of its result. In other requests it is done alone. Otherwise as [`run`](Self::run).
    #[track_caller]
    pub fn transacted<W, T, F>(
        &self,
        name: &'static str,
        transactor: Transactor<W, T>,
        body: F,
    ) -> Step<S, P, I, I, T>
    where
        W: 'static,
        T: 'static,
        F: Fn(&Cx<S, P>, I) -> W + Send + Sync + 'static,
    {
        transacted(Chain::new(), name, transactor, body)
    }
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    /// [`Steps::transacted`] for a step that takes the result of this one.
    #[track_caller]
    pub fn then_transacted<W, U, F>(
        self,
        name: &'static str,
        transactor: Transactor<W, U>,
        body: F,
    ) -> Step<S, P, I, T, U, E>
    where
        W: 'static,
        U: 'static,
        F: Fn(&Cx<S, P>, T) -> W + Send + Sync + 'static,
    {
        transacted(self.into_chain(), name, transactor, body)
    }
}

#[track_caller]
fn transacted<S, P, I, A, W, T, E, F>(
    chain: Chain,
    name: &'static str,
    transactor: Transactor<W, T>,
    body: F,
) -> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    W: 'static,
    T: 'static,
    F: Fn(&Cx<S, P>, A) -> W + Send + Sync + 'static,
{
    let Transactor { codec, work, alone } = transactor;
    let mut step = chain.body(name, async move |cx: &Cx<S, P>, input: A| {
        let returned = body(cx, input);
        let Some(step) = cx.context.recorded() else { return alone(returned).await };
        let stored = step.ends(cx.attempt(), BodyEnd::Transacts(work(returned))).await?;
        Ok((codec.read)(&stored)?)
    });
    step.last.facts.kind = Some(Kind::Transacted);
    step.last.facts.read = Some(Read::of(codec));
    step
}
