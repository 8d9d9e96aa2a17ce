//! The same steps for each of several items, all at once, until enough of them have ended well.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::replay::{Limit, LimitTurn};
use asyncsteps_core::{Args, AsyncSteps, Error, Interrupter, StepResult, codes};

use super::around::Around;
use super::context::Context;
use super::cx::Cx;
use super::form::Form;
use super::join::result_of;
use super::node::Level;
use super::returns::IntoReturns;
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;
use super::work::ItemRules;
use crate::recorder::Part;

/// The code of [`Lost`], by which it is known when it was recorded.
const LOST: &str = "asyncsteps:RaceLost";

/// The error that ends the steps of an item whose race is decided.
#[derive(Debug, thiserror::Error)]
#[error("the race is decided")]
struct Lost;

impl Lost {
    fn error() -> Error {
        Error::with_info(LOST, "the race is decided").with_cause(Self)
    }
}

/// The options of a [race](super::Steps::race).
impl<S, P, I, A, X, E> Step<S, P, I, A, Vec<X>, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    X: 'static,
{
    /// How many items win the race: 1 by default.
    pub fn first(mut self, count: usize) -> Self {
        self.needs_race("first", count > 0);
        self.last.facts.first = Some(count);
        self.last.said.items.first = count;
        self
    }

    /// Ends the race after this time, with the items that have won until then: none to all that may.
    pub fn within(mut self, limit: Duration) -> Self {
        self.needs_race("within", true);
        self.last.facts.timeout = Some(limit);
        self.last.said.items.within = Some(limit);
        self
    }

    /// How many items have to win: otherwise the step fails, with `Timeout` if its time has passed. By default one,
    /// and none for a race that has a [time](Self::within).
    pub fn at_least(mut self, count: usize) -> Self {
        self.needs_race("at_least", true);
        self.last.facts.at_least = Some(count);
        self.last.said.items.at_least = Some(count);
        self
    }

    fn needs_race(&mut self, word: &'static str, is_right: bool) {
        if self.last.facts.form != Form::Race || !is_right {
            self.last.facts.misplaced.push(word);
        }
    }
}

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step that runs the same steps for all items that `items` returns at once, until the [first](Step::first) of
    /// them have ended well, or [for some time](Step::within). It returns the results of the items that won, in the
    /// order of the items. The others are cut then, and undone before the next step;
    /// signals that they took are there again.
    ///
    /// In a [durable](crate::recorder) request it is recorded how many items there are, and which have lost; a request
    /// that finds another number of items after a crash is paused.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use asyncsteps_core::BodyResult;
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Travel { suppliers: Vec<String> }
    /// # impl Service for Travel { type Errors = (); }
    /// # impl Travel { async fn offer(&self, _: &str) -> BodyResult<i32> { Ok(7) } }
    /// fn offers(steps: &Steps<Travel, ()>) -> Returns<Vec<i32>> {
    ///     steps
    ///         .race("ask", |cx, ()| cx.suppliers.clone(), |supplier| {
    ///             supplier.run("offer", async |cx, supplier| cx.offer(&supplier).await)
    ///         })
    ///         .first(3)
    ///         .within(Duration::from_millis(300))
    ///         .returns()
    /// }
    /// ```
    #[track_caller]
    pub fn race<X, R>(
        &self,
        name: &'static str,
        items: impl Fn(&Cx<S, P>, I) -> Vec<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, I, Vec<R::Result>>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        race(Chain::new(), name, items, steps)
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
    /// [`race`](Steps::race) of the items that `items` makes of what the step before returns.
    #[track_caller]
    pub fn then_race<X, R>(
        self,
        name: &'static str,
        items: impl Fn(&Cx<S, P>, T) -> Vec<X> + Send + Sync + 'static,
        steps: impl FnOnce(&Steps<S, P, X>) -> R,
    ) -> Step<S, P, I, T, Vec<R::Result>, E>
    where
        X: 'static,
        R: IntoReturns<S, P, X>,
    {
        race(self.into_chain(), name, items, steps)
    }
}

#[track_caller]
fn race<S, P, I, A, X, R, E>(
    chain: Chain,
    name: &'static str,
    items: impl Fn(&Cx<S, P>, A) -> Vec<X> + Send + Sync + 'static,
    steps: impl FnOnce(&Steps<S, P, X>) -> R,
) -> Step<S, P, I, A, Vec<R::Result>, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    X: 'static,
    R: IntoReturns<S, P, X>,
{
    let level = Level::of(Steps::inside(steps));
    let inside = Some(Arc::clone(&level));
    chain.substeps(name, Form::Race, inside, move |asi, cx: Context, input, said: &_| {
        let rules = said.items;
        let items = items(&Cx::of(cx.clone()), input);
        if let Some(step) = cx.recorded() {
            step.numbers(cx.attempt(), items.len())?;
        }
        let race = Rc::new(Race::of(items.len(), rules, &cx));
        let source = cx.source();
        asi.parallel(|parallel| {
            for (number, item) in items.into_iter().enumerate() {
                let (level, race, of_error) =
                    (Arc::clone(&level), Rc::clone(&race), Rc::clone(&race));
                let cx = cx.clone();
                let branch =
                    move |asi: &mut AsyncSteps, ()| race.enter(asi, &level, (number, cx, item));
                let handler = move |asi: &mut AsyncSteps, error: &Error| {
                    of_error.lost(number, error);
                    asi.success(())
                };
                parallel.add(branch).located_at(source).on_error(handler);
            }
            if let Some(limit) = rules.within {
                let (race, cx) = (Rc::clone(&race), cx.clone());
                let clock = move |asi: &mut AsyncSteps, ()| race.wait(asi, left_of(limit, &cx));
                parallel.add(clock).located_at(source).on_error(|asi, _| asi.success(()));
            }
        })
        .located_at(source);
        asi.add_inner(move |asi, ()| {
            let results = race.end()?.into_iter().map(|won| result_of::<R::Result>(Some(won)));
            asi.success((results.collect::<Result<Vec<R::Result>, _>>()?,))
        });
        Ok(())
    })
}

/// The time that is left of a race, which goes on after a crash.
fn left_of(limit: Duration, cx: &Context) -> Duration {
    let Some(step) = cx.recorded() else { return limit };
    let attempt = Limit::Attempt(cx.attempt());
    step.inside_attempt(cx.attempt()).time_left(attempt, limit, clock::now(), LimitTurn::Begins)
}

/// A race while it runs.
struct Race {
    rules: ItemRules,
    /// A host records its items.
    is_recorded: bool,
    /// Where the application wrote the step.
    source: &'static Location<'static>,
    /// The results of the items that have won, by their number.
    won: RefCell<Vec<Option<Args>>>,
    /// Ends the steps of items that run, and the wait for the end of the race, which comes last.
    running: RefCell<Vec<Option<Interrupter>>>,
    /// The items that have begun.
    items: RefCell<Vec<Option<Rc<Around>>>>,
    /// How many items have not ended.
    left: Cell<usize>,
    is_decided: Cell<bool>,
    /// The time has passed.
    is_late: Cell<bool>,
    /// The error of the item that failed first.
    error: RefCell<Option<Error>>,
}

impl Race {
    fn of(items: usize, rules: ItemRules, cx: &Context) -> Self {
        Self {
            rules,
            is_recorded: cx.recorded().is_some(),
            source: cx.source(),
            won: RefCell::new((0..items).map(|_| None).collect()),
            running: RefCell::new((0..=items).map(|_| None).collect()),
            items: RefCell::new((0..items).map(|_| None).collect()),
            left: Cell::new(items),
            is_decided: Cell::new(items == 0),
            is_late: Cell::new(false),
            error: RefCell::default(),
        }
    }

    /// Runs the steps of an item in the running step, which is inside of the one with this context.
    fn enter<X: 'static>(
        self: Rc<Self>,
        asi: &mut AsyncSteps,
        level: &Arc<Level>,
        (number, of_race, item): (usize, Context, X),
    ) -> StepResult {
        // one that has lost before a crash fails again
        let around = level.inside(&of_race, None, Some(Part::Item(number)))?;
        if let Some(item) = self.items.borrow_mut().get_mut(number) {
            *item = Some(Rc::clone(&around));
        }
        let Some(recorded) = around.recorded.clone() else {
            return self.run(asi, level, (number, around, item));
        };
        let (level, source) = (Arc::clone(level), self.source);
        // the host is notified which items have lost
        asi.add(move |asi, ()| self.run(asi, &level, (number, around, item)))
            .remembered(recorded.inside())
            .named("item")
            .located_at(source);
        Ok(())
    }

    fn run<X: 'static>(
        self: Rc<Self>,
        asi: &mut AsyncSteps,
        level: &Level,
        (number, around, item): (usize, Rc<Around>, X),
    ) -> StepResult {
        if self.is_decided.get() {
            return Err(Lost::error().into());
        }
        self.begins(number, asi.interrupter());
        let recorded = around.recorded.clone();
        level.enter_branch(0, asi, around, item);
        asi.add_inner(move |_, result: Args| {
            self.wins(number, result)?;
            if let Some(level) = recorded {
                level.ended(false)?;
            }
            Ok(())
        });
        Ok(())
    }

    /// Waits for the time at which the race ends.
    fn wait(self: Rc<Self>, asi: &mut AsyncSteps, limit: Duration) {
        if self.is_decided.get() {
            return;
        }
        let last = self.running.borrow().len() - 1;
        self.begins(last, asi.interrupter());
        asi.sleep(limit).located_at(self.source);
        asi.add_inner(move |_, ()| {
            self.is_late.set(true);
            self.decide();
        });
    }

    fn begins(&self, number: usize, interrupter: Interrupter) {
        if let Some(running) = self.running.borrow_mut().get_mut(number) {
            *running = Some(interrupter);
        }
    }

    /// The steps of an item ended well: they win, unless the race was decided before.
    fn wins(&self, number: usize, result: Args) -> StepResult {
        if self.is_decided.get() {
            return Err(Lost::error().into());
        }
        self.leaves(number);
        if let Some(won) = self.won.borrow_mut().get_mut(number) {
            *won = Some(result);
        }
        self.ends(self.winners() == self.rules.first);
        Ok(())
    }

    /// The steps of an item failed.
    fn lost(&self, number: usize, error: &Error) {
        self.leaves(number);
        let has_lost = error.find::<Lost>().is_some() || self.is_recorded && error.code() == LOST;
        if !has_lost {
            self.error.borrow_mut().get_or_insert_with(|| error.clone());
        } else if let Some(item) = self.items.borrow().get(number).and_then(Option::as_ref) {
            item.give_back_signals();
        }
        self.ends(false);
    }

    fn leaves(&self, number: usize) {
        if let Some(running) = self.running.borrow_mut().get_mut(number) {
            *running = None;
        }
    }

    fn winners(&self) -> usize {
        self.won.borrow().iter().flatten().count()
    }

    /// An item ended.
    fn ends(&self, decides: bool) {
        self.left.set(self.left.get() - 1);
        if decides || self.left.get() == 0 {
            self.decide();
        }
    }

    /// The race is decided: running items are cut.
    fn decide(&self) {
        self.is_decided.set(true);
        for running in self.running.borrow_mut().iter_mut().filter_map(Option::take) {
            // one that ends in this turn finds that it has lost
            let _ = running.interrupt(Lost::error());
        }
    }

    /// The results of the winners, if there are enough.
    fn end(&self) -> Result<Vec<Args>, Error> {
        let least = self.rules.at_least.unwrap_or_else(|| usize::from(self.rules.within.is_none()));
        let won: Vec<_> = self.won.take().into_iter().flatten().collect();
        if won.len() >= least {
            return Ok(won);
        }
        if self.is_late.get() {
            let info = format!("{} of {least} won the race in time", won.len());
            return Err(Error::with_info(codes::TIMEOUT, info));
        }
        Err(self
            .error
            .take()
            .unwrap_or_else(|| Error::unexpected(format!("{} of {least} won the race", won.len()))))
    }
}
