//! Steps that do several things at once, each with a context and a key of its own.

use asyncsteps::{Arguments, Error, Fallible, gather};

use super::context::{Cx, Service, coded};
use super::step::{Kind, Step};
use super::steps::Steps;

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step that runs `body` for each item, at most `at_once` at a time; it gives the results
    /// in the order of the items, see [`AsyncSteps::each`](asyncsteps::AsyncSteps::each).
    #[track_caller]
    pub fn each<I, R, F>(
        &mut self,
        name: &'static str,
        items: I,
        at_once: usize,
        body: F,
    ) -> Step<'_, S, P, (), Vec<R>>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> Fallible<R> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| each(cx, items.clone(), at_once, &body).await)
    }

    /// [`each`](Self::each) that gives all results, errors included: none of them drops another one,
    /// see [`AsyncSteps::each_result`](asyncsteps::AsyncSteps::each_result).
    #[track_caller]
    pub fn each_result<I, R, F>(
        &mut self,
        name: &'static str,
        items: I,
        at_once: usize,
        body: F,
    ) -> Step<'_, S, P, (), Vec<Result<R, Error>>>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> Fallible<R> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            each_result(cx, items.clone(), at_once, &body).await
        })
    }

    /// Adds a step that runs `body` for all items at once and gives the result of the first that
    /// succeeds, see [`AsyncSteps::race`](asyncsteps::AsyncSteps::race).
    #[track_caller]
    pub fn race<I, R, F>(&mut self, name: &'static str, items: I, body: F) -> Step<'_, S, P, (), R>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> Fallible<R> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let items = items.clone().into_iter().enumerate();
            gather::race(items, &async |(number, item)| body(&cx.of_item(number), item).await).await
        })
    }

    /// Adds a step that does two things at once and gives both results, see
    /// [`AsyncSteps::join`](asyncsteps::AsyncSteps::join).
    #[track_caller]
    pub fn join<A, B, F, G>(
        &mut self,
        name: &'static str,
        one: F,
        other: G,
    ) -> Step<'_, S, P, (), (A, B)>
    where
        A: 'static,
        B: 'static,
        F: AsyncFn(&Cx<S, P>) -> Fallible<A> + 'static,
        G: AsyncFn(&Cx<S, P>) -> Fallible<B> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            gather::join(one(&cx.of_item(0)), other(&cx.of_item(1))).await
        })
    }

    /// [`join`](Self::join) for three.
    #[track_caller]
    pub fn join3<A, B, C, F, G, H>(
        &mut self,
        name: &'static str,
        first: F,
        second: G,
        third: H,
    ) -> Step<'_, S, P, (), (A, B, C)>
    where
        A: 'static,
        B: 'static,
        C: 'static,
        F: AsyncFn(&Cx<S, P>) -> Fallible<A> + 'static,
        G: AsyncFn(&Cx<S, P>) -> Fallible<B> + 'static,
        H: AsyncFn(&Cx<S, P>) -> Fallible<C> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let (zero, one, two) = (cx.of_item(0), cx.of_item(1), cx.of_item(2));
            let both = gather::join(first(&zero), second(&one));
            let ((a, b), c) = gather::join(both, third(&two)).await?;
            Ok((a, b, c))
        })
    }
}

impl<'a, S, P, A, T, K> Step<'a, S, P, A, T, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: IntoIterator + 'static,
    K: Kind<T>,
{
    /// Adds a step that runs `body` for each item that this one gives, at most `at_once` at a time;
    /// see [`Steps::each`].
    #[track_caller]
    pub fn then_each<R, F>(
        self,
        name: &'static str,
        at_once: usize,
        body: F,
    ) -> Step<'a, S, P, (T,), Vec<R>>
    where
        R: 'static,
        F: AsyncFn(&Cx<S, P>, T::Item) -> Fallible<R> + 'static,
    {
        self.then(name, async move |cx: &Cx<S, P>, items| each(cx, items, at_once, &body).await)
    }

    /// [`then_each`](Self::then_each) that gives all results, errors included; see
    /// [`Steps::each_result`].
    #[track_caller]
    pub fn then_each_result<R, F>(
        self,
        name: &'static str,
        at_once: usize,
        body: F,
    ) -> Step<'a, S, P, (T,), Vec<Result<R, Error>>>
    where
        R: 'static,
        F: AsyncFn(&Cx<S, P>, T::Item) -> Fallible<R> + 'static,
    {
        self.then(name, async move |cx: &Cx<S, P>, items| {
            each_result(cx, items, at_once, &body).await
        })
    }
}

async fn each<S: Service, P, I, R, F>(
    cx: &Cx<S, P>,
    items: I,
    at_once: usize,
    body: &F,
) -> Fallible<Vec<R>>
where
    I: IntoIterator,
    F: AsyncFn(&Cx<S, P>, I::Item) -> Fallible<R>,
{
    let items = items.into_iter().enumerate();
    let body = async |(number, item)| body(&cx.of_item(number), item).await;
    gather::each(items, at_once, &body).await
}

async fn each_result<S: Service, P, I, R, F>(
    cx: &Cx<S, P>,
    items: I,
    at_once: usize,
    body: &F,
) -> Fallible<Vec<Result<R, Error>>>
where
    I: IntoIterator,
    F: AsyncFn(&Cx<S, P>, I::Item) -> Fallible<R>,
{
    let body = async |cx: &Cx<S, P>, item| {
        Ok(body(cx, item).await.map_err(|error| coded::<S>(error).into_error()))
    };
    each(cx, items, at_once, &body).await
}
