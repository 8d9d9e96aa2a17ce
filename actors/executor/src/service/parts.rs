//! Steps that do two or three things at once, with types of their own.

use asyncsteps_core::{BodyResult, gather};

use super::context::{Cx, Service};
use super::key::Item;
use super::remembered::{Kept, RememberedItems};
use super::step::{Parts, Step};
use super::steps::Steps;
use crate::recorder::Codec;

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step that does two things at once and gives both results, see
    /// [`AsyncSteps::join`](asyncsteps_core::AsyncSteps::join).
    #[track_caller]
    pub fn join<A, B, F, G>(
        &mut self,
        name: &'static str,
        one: F,
        other: G,
    ) -> Step<'_, S, P, (), (A, B), Parts>
    where
        A: 'static,
        B: 'static,
        F: AsyncFn(&Cx<S, P>) -> BodyResult<A> + 'static,
        G: AsyncFn(&Cx<S, P>) -> BodyResult<B> + 'static,
    {
        let kept = self.cx.memory().map(|_| (RememberedItems::new(), RememberedItems::new()));
        let of_body = kept.clone();
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let kept = of_body.as_ref();
            let one = part(cx, 0, kept.map(|kept| &*kept.0), &one);
            let other = part(cx, 1, kept.map(|kept| &*kept.1), &other);
            gather::join(one, other).await
        })
        .with_parts(kept)
    }

    /// [`join`](Self::join) for three.
    #[track_caller]
    pub fn join3<A, B, C, F, G, H>(
        &mut self,
        name: &'static str,
        first: F,
        second: G,
        third: H,
    ) -> Step<'_, S, P, (), (A, B, C), Parts>
    where
        A: 'static,
        B: 'static,
        C: 'static,
        F: AsyncFn(&Cx<S, P>) -> BodyResult<A> + 'static,
        G: AsyncFn(&Cx<S, P>) -> BodyResult<B> + 'static,
        H: AsyncFn(&Cx<S, P>) -> BodyResult<C> + 'static,
    {
        let new = |_: &_| (RememberedItems::new(), RememberedItems::new(), RememberedItems::new());
        let kept = self.cx.memory().map(new);
        let of_body = kept.clone();
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let kept = of_body.as_ref();
            let first = part(cx, 0, kept.map(|kept| &*kept.0), &first);
            let second = part(cx, 1, kept.map(|kept| &*kept.1), &second);
            let third = part(cx, 2, kept.map(|kept| &*kept.2), &third);
            let ((a, b), c) = gather::join(gather::join(first, second), third).await?;
            Ok((a, b, c))
        })
        .with_parts(kept)
    }
}

/// Does one of the things, unless it was done in an earlier run.
async fn part<S: Service, P, R>(
    cx: &Cx<S, P>,
    number: usize,
    kept: Option<&RememberedItems<R>>,
    body: &impl AsyncFn(&Cx<S, P>) -> BodyResult<R>,
) -> BodyResult<R> {
    let item = Item::Nth(number);
    let cx = cx.of_item(item.clone());
    match kept {
        Some(kept) => kept.run(&item, cx.attempt(), body(&cx)).await,
        None => body(&cx).await,
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<S: Service, P, A: 'static, B: 'static> Step<'_, S, P, (), (A, B), Parts> {
    /// Says how the host of a request that it [remembers](crate::recorder) stores each of the results, so
    /// that what is done is not done again.
    pub fn parts_remembered(self, (a, b): (Codec<A>, Codec<B>)) -> Self {
        let parts = self.remembered.as_ref().and_then(|step| step.items.get());
        if let Some(parts) = parts.and_then(|parts| parts.downcast_ref::<(Kept<A>, Kept<B>)>()) {
            parts.0.stored_as(a);
            parts.1.stored_as(b);
        }
        self
    }
}

#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
impl<S: Service, P, A: 'static, B: 'static, C: 'static> Step<'_, S, P, (), (A, B, C), Parts> {
    /// Says how the host of a request that it [remembers](crate::recorder) stores each of the results, so
    /// that what is done is not done again.
    pub fn parts_remembered(self, (a, b, c): (Codec<A>, Codec<B>, Codec<C>)) -> Self {
        let parts = self.remembered.as_ref().and_then(|step| step.items.get());
        let parts = parts.and_then(|parts| parts.downcast_ref::<(Kept<A>, Kept<B>, Kept<C>)>());
        if let Some(parts) = parts {
            parts.0.stored_as(a);
            parts.1.stored_as(b);
            parts.2.stored_as(c);
        }
        self
    }
}
