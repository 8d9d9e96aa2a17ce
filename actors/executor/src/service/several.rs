//! Steps that do several things at once, each with a context and a key of its own.

use std::collections::HashMap;

use asyncsteps_core::{Arguments, BodyResult, Error, codes, gather};

use super::context::{Cx, Service, coded};
use super::key::Item;
use super::remembered::RememberedItems;
use super::step::{Items, Kind, Step};
use super::steps::Steps;

impl<S: Service, P: 'static> Steps<S, P> {
    /// Adds a step that runs `body` for each item, at most `at_once` at a time; it gives the results
    /// in the order of the items, see [`AsyncSteps::each`](asyncsteps_core::AsyncSteps::each).
    #[track_caller]
    pub fn each<I, R, F>(
        &mut self,
        name: &'static str,
        items: I,
        at_once: usize,
        body: F,
    ) -> Step<'_, S, P, (), Vec<R>, Items<R>>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R> + 'static,
    {
        let kept = self.cx.memory().map(|_| RememberedItems::new());
        let of_body = kept.clone();
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            each(cx, items.clone(), at_once, of_body.as_deref(), &body).await
        })
        .with_items(kept)
    }

    /// [`each`](Self::each) for items that have keys of their own: the [keys](Cx::key) of the step have
    /// these in place of positions, and a [durable](crate::recorder) request knows its items by them, in
    /// whatever order they come when it goes on. Two items with one key are an InternalError, before
    /// anything is done.
    #[track_caller]
    pub fn each_by<I, R, K, F>(
        &mut self,
        name: &'static str,
        items: I,
        key: K,
        at_once: usize,
        body: F,
    ) -> Step<'_, S, P, (), Vec<R>, Items<R>>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        K: Fn(&I::Item) -> String + 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R> + 'static,
    {
        let kept = self.cx.memory().map(|_| RememberedItems::new());
        let of_body = kept.clone();
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let items = keyed(items.clone(), &key, of_body.as_deref())?;
            each_item(cx, items, at_once, of_body.as_deref(), &body).await
        })
        .with_items(kept)
    }

    /// [`each`](Self::each) that gives all results, errors included: none of them drops another one,
    /// see [`AsyncSteps::each_result`](asyncsteps_core::AsyncSteps::each_result).
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
        F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R> + 'static,
    {
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            each_result(cx, items.clone(), at_once, &body).await
        })
    }

    /// Adds a step that runs `body` for all items at once and gives the result of the first that
    /// succeeds, see [`AsyncSteps::race`](asyncsteps_core::AsyncSteps::race).
    #[track_caller]
    pub fn race<I, R, F>(
        &mut self,
        name: &'static str,
        items: I,
        body: F,
    ) -> Step<'_, S, P, (), R, Items<R>>
    where
        I: IntoIterator + Clone + 'static,
        R: 'static,
        F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R> + 'static,
    {
        let kept = self.cx.memory().map(|_| RememberedItems::new());
        let of_body = kept.clone();
        self.run(name, async move |cx: &Cx<S, P>, ()| {
            let items: Vec<_> = items.clone().into_iter().enumerate().collect();
            if let Some(kept) = &of_body
                && let Some(winner) = kept.first_stored(items.len())?
            {
                return Ok(winner);
            }
            let body = async |(number, item)| {
                run_item(cx, Item::Nth(number), item, of_body.as_deref(), &body).await
            };
            gather::race(items, &body).await
        })
        .with_items(kept)
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
    ) -> Step<'a, S, P, (T,), Vec<R>, Items<R>>
    where
        R: 'static,
        F: AsyncFn(&Cx<S, P>, T::Item) -> BodyResult<R> + 'static,
    {
        let kept = self.cx.memory().map(|_| RememberedItems::new());
        let of_body = kept.clone();
        self.then(name, async move |cx: &Cx<S, P>, items| {
            each(cx, items, at_once, of_body.as_deref(), &body).await
        })
        .with_items(kept)
    }

    /// [`then_each`](Self::then_each) for items that have keys of their own, see [`Steps::each_by`].
    #[track_caller]
    pub fn then_each_by<R, Q, F>(
        self,
        name: &'static str,
        key: Q,
        at_once: usize,
        body: F,
    ) -> Step<'a, S, P, (T,), Vec<R>, Items<R>>
    where
        R: 'static,
        Q: Fn(&T::Item) -> String + 'static,
        F: AsyncFn(&Cx<S, P>, T::Item) -> BodyResult<R> + 'static,
    {
        let kept = self.cx.memory().map(|_| RememberedItems::new());
        let of_body = kept.clone();
        self.then(name, async move |cx: &Cx<S, P>, items| {
            let items = keyed(items, &key, of_body.as_deref())?;
            each_item(cx, items, at_once, of_body.as_deref(), &body).await
        })
        .with_items(kept)
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
        F: AsyncFn(&Cx<S, P>, T::Item) -> BodyResult<R> + 'static,
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
    kept: Option<&RememberedItems<R>>,
    body: &F,
) -> BodyResult<Vec<R>>
where
    I: IntoIterator,
    F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R>,
{
    let items = items.into_iter().enumerate().map(|(number, item)| (Item::Nth(number), item));
    each_item(cx, items, at_once, kept, body).await
}

async fn each_item<S: Service, P, T, R, F>(
    cx: &Cx<S, P>,
    items: impl IntoIterator<Item = (Item, T)>,
    at_once: usize,
    kept: Option<&RememberedItems<R>>,
    body: &F,
) -> BodyResult<Vec<R>>
where
    F: AsyncFn(&Cx<S, P>, T) -> BodyResult<R>,
{
    let body = async |(key, item)| run_item(cx, key, item, kept, body).await;
    gather::each(items, at_once, &body).await
}

/// Runs the body of an item, unless that was done in an earlier run.
async fn run_item<S: Service, P, T, R, F>(
    cx: &Cx<S, P>,
    key: Item,
    item: T,
    kept: Option<&RememberedItems<R>>,
    body: &F,
) -> BodyResult<R>
where
    F: AsyncFn(&Cx<S, P>, T) -> BodyResult<R>,
{
    let cx = cx.of_item(key.clone());
    match kept {
        Some(kept) => kept.run(&key, cx.attempt(), body(&cx, item)).await,
        None => body(&cx, item).await,
    }
}

/// Items with their keys, in the order in which they were when the step began.
fn keyed<I: IntoIterator, R>(
    items: I,
    key: &impl Fn(&I::Item) -> String,
    kept: Option<&RememberedItems<R>>,
) -> Result<Vec<(Item, I::Item)>, Error> {
    let (mut keys, mut by_key) = (Vec::new(), HashMap::new());
    for (number, item) in items.into_iter().enumerate() {
        let key = key(&item);
        if let Some((first, _)) = by_key.insert(key.clone(), (number, item)) {
            let info = format!("the items {first} and {number} have the same key `{key}`");
            return Err(Error::with_info(codes::INTERNAL_ERROR, info));
        }
        keys.push(key);
    }
    let keys = match kept {
        Some(kept) => kept.keys(keys)?,
        None => keys,
    };
    let items = keys.into_iter().filter_map(|key| {
        let (_, item) = by_key.remove(&key)?;
        Some((Item::Key(key.into()), item))
    });
    Ok(items.collect())
}

async fn each_result<S: Service, P, I, R, F>(
    cx: &Cx<S, P>,
    items: I,
    at_once: usize,
    body: &F,
) -> BodyResult<Vec<Result<R, Error>>>
where
    I: IntoIterator,
    F: AsyncFn(&Cx<S, P>, I::Item) -> BodyResult<R>,
{
    let body = async |cx: &Cx<S, P>, item| {
        Ok(body(cx, item).await.map_err(|error| coded::<S>(error).into_error()))
    };
    each(cx, items, at_once, None, &body).await
}
