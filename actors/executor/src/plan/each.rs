//! The same steps for each of several items, some at once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::vec;

use asyncsteps_core::{AsyncSteps, Error, StepResult};

use super::context::Context;
use super::form::Form;
use super::given::Given;
use super::join::{Results, result_of};
use super::node::Level;
use super::returns::IntoReturns;
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;
use crate::recorder::Part;

/// The key of an item, which identifies it whatever the order of the items.
type KeyOf<X> = Box<dyn Fn(&X) -> String + Send + Sync>;

/// Items, with their keys if they have some.
type Keyed<X> = (Vec<X>, Option<Vec<Rc<str>>>);

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step that runs the same steps for each item that `items` returns, each item in a branch of its own;
    /// [`at_once`](Step::at_once) says how many at a time. It returns the results in the order of the items.
    ///
    /// The first error becomes the error of the step, and cancels the other items. Items are undone in parallel, or
    /// newest first where one branch carried out several.
    ///
    /// ```
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Shop;
    /// # impl Service for Shop { type Errors = (); }
    /// # impl Shop {
    /// #     async fn reserve(&self, _: &str, _: &str) -> BodyResult<u32> { Ok(7) }
    /// #     async fn give_back(&self, _: &str) -> BodyResult<()> { Ok(()) }
    /// # }
    /// # struct Order { skus: Vec<String> }
    /// fn order(steps: &Steps<Shop, Order>) -> Returns<Vec<u32>> {
    ///     steps
    ///         .each("reserve all", |cx, ()| cx.params.skus.clone(), |item| {
    ///             item.run("reserve", async |cx, sku| cx.reserve(cx.key(), &sku).await)
    ///                 .undo(async |cx, _| cx.give_back(cx.key()).await)
    ///         })
    ///         .at_once(8)
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn each<X, R>(
        &self,
        name: &'static str,
        items: impl Fn(&Given<'_, P>, I) -> Vec<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, I, Vec<R::Result>>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        each(Chain::new(), name, (items, None), steps)
    }

    /// [`each`](Self::each) for items that have keys of their own: the [keys](super::Cx::key) of the steps inside have
    /// these in place of positions. Two items with one key are an InternalError before anything is done.
    #[track_caller]
    pub fn each_by<X, R>(
        &self,
        name: &'static str,
        items: impl Fn(&Given<'_, P>, I) -> Vec<X> + Send + Sync + 'static,
        key: impl Fn(&X) -> String + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, I, Vec<R::Result>>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        each(Chain::new(), name, (items, Some(Box::new(key))), steps)
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
    /// [`each`](Steps::each) for the items that `items` makes of what the step before returns.
    #[track_caller]
    pub fn then_each<X, R>(
        self,
        name: &'static str,
        items: impl Fn(&Given<'_, P>, T) -> Vec<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, T, Vec<R::Result>, E>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        each(self.into_chain(), name, (items, None), steps)
    }

    /// [`each_by`](Steps::each_by) for the items that `items` makes of what the step before returns.
    #[track_caller]
    pub fn then_each_by<X, R>(
        self,
        name: &'static str,
        items: impl Fn(&Given<'_, P>, T) -> Vec<X> + Send + Sync + 'static,
        key: impl Fn(&X) -> String + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, T, Vec<R::Result>, E>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        each(self.into_chain(), name, (items, Some(Box::new(key))), steps)
    }
}

#[track_caller]
fn each<S, P, I, A, X, R, E, F>(
    chain: Chain,
    name: &'static str,
    (items, key): (F, Option<KeyOf<X>>),
    steps: impl FnOnce(&Steps<S, P, X>) -> R,
) -> Step<S, P, I, A, Vec<R::Result>, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    X: 'static,
    R: IntoReturns<S, P, X>,
    F: Fn(&Given<'_, P>, A) -> Vec<X> + Send + Sync + 'static,
{
    let level = Level::of(Steps::inside(steps));
    let inside = Some(Arc::clone(&level));
    chain.substeps(name, Form::Each, inside, move |asi, cx: Context, input, said: &_| {
        let items = items(&Given::to(&cx), input);
        let keys = key.as_ref().map(|key| keys(&items, key)).transpose()?;
        let (items, keys) = in_recorded_order(&cx, (items, keys))?;
        let (count, source) = (items.len(), cx.source());
        let inside = cx.recorded().map(|step| step.inside_attempt(cx.attempt()));
        let all = All {
            cx,
            level: Arc::clone(&level),
            left: RefCell::new(items.into_iter().enumerate()),
            keys,
            results: Results::of(count),
        };
        let results = all.results.clone();
        let all = Rc::new(all);
        let of_branches = inside.clone();
        let mut step = asi.parallel(|parallel| {
            for _ in 0..said.items.at_once.min(count) {
                let all = Rc::clone(&all);
                let Some(inside) = of_branches.clone() else {
                    parallel.make_loop(move |asi| all.next(asi)).located_at(source);
                    continue;
                };
                let mut branch = parallel.add(move |asi, ()| {
                    asi.make_loop(move |asi| all.next(asi)).located_at(source);
                });
                branch.remembered(inside).located_at(source);
            }
        });
        step.located_at(source);
        if let Some(inside) = inside {
            step.remembered(inside);
        }
        asi.add_inner(move |asi, ()| {
            let results = results.take().map(|result| result_of::<R::Result>(Some(result)));
            asi.success((results.collect::<Result<Vec<R::Result>, _>>()?,))
        });
        Ok(())
    })
}

/// The items of a step while they are carried out.
struct All<X> {
    cx: Context,
    level: Arc<Level>,
    /// The items that no branch has taken.
    left: RefCell<std::iter::Enumerate<vec::IntoIter<X>>>,
    keys: Option<Vec<Rc<str>>>,
    results: Results,
}

impl<X: 'static> All<X> {
    /// Carries out the next item in this branch, if one is left.
    fn next(&self, asi: &mut AsyncSteps) -> StepResult {
        let Some((number, item)) = self.left.borrow_mut().next() else {
            return asi.break_loop(None);
        };
        let key = self.keys.as_ref().and_then(|keys| keys.get(number).cloned());
        let part = key.map_or(Part::Item(number), Part::Key);
        self.level.enter_inside(asi, &self.cx, (part, item))?;
        self.results.keep(asi, number);
        Ok(())
    }
}

/// The keys of items, which are unique.
fn keys<X>(items: &[X], key: &KeyOf<X>) -> Result<Vec<Rc<str>>, Error> {
    let mut known = HashMap::new();
    let with_number = items.iter().enumerate();
    with_number
        .map(|(number, item)| {
            let key: Rc<str> = key(item).into();
            match known.insert(Rc::clone(&key), number) {
                None => Ok(key),
                Some(first) => {
                    let info = format!("the items {first} and {number} have the same key `{key}`");
                    Err(Error::unexpected(info))
                }
            }
        })
        .collect()
}

/// Items and their keys, in the order in which the step began with them before a crash.
fn in_recorded_order<X>(cx: &Context, (items, keys): Keyed<X>) -> Result<Keyed<X>, Error> {
    let Some(step) = cx.recorded() else { return Ok((items, keys)) };
    let Some(keys) = keys else {
        step.numbers(cx.attempt(), items.len())?;
        return Ok((items, None));
    };
    let recorded = step.keys(cx.attempt(), keys.iter().map(ToString::to_string).collect())?;
    let places: HashMap<&str, usize> =
        recorded.iter().enumerate().map(|(place, key)| (&**key, place)).collect();
    let mut ordered: Vec<_> = keys.into_iter().zip(items).collect();
    ordered.sort_by_key(|(key, _)| places.get(&**key).copied());
    let (keys, items) = ordered.into_iter().unzip();
    Ok((items, Some(keys)))
}
