//! The plan of a function of an executor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::Template;
use serde::de::DeserializeOwned;

use super::cx::{Cx, coded};
use super::node::{Level, Mistake};
use super::step::Returns;
use super::steps::{Defined, Steps};
use crate::service::{Built, FunctionOf, Handler, Service};

/// The form of handlers that return a plan.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Plans {}

impl<S, P, R, F> Handler<S, (Plans, P, R)> for F
where
    S: Service,
    P: 'static,
    R: 'static,
    F: Fn(&Steps<S, P>) -> Returns<R> + Send + Sync + 'static,
{
    type Params = P;
    type Result = R;

    fn build(self: Arc<Self>, function: &FunctionOf<S>) -> Built
    where
        P: DeserializeOwned,
    {
        let source = function.source;
        let Defined { nodes, answer: _ } =
            match catch_unwind(AssertUnwindSafe(|| Steps::define(|steps| self(steps)))) {
                Ok(defined) => defined,
                Err(panic) => {
                    let what = panic.downcast_ref::<&str>().map(ToString::to_string);
                    let what = what.or_else(|| panic.downcast_ref::<String>().cloned());
                    let what = what.unwrap_or_else(|| "its handler panics".to_owned());
                    return Built::mistaken(vec![Mistake { source, what }]);
                }
            };
        let (level, mut mistakes) = (Level::of(nodes), Vec::new());
        level.complete(0, &mut mistakes);
        if !mistakes.is_empty() {
            return Built::mistaken(mistakes);
        }
        let service = Arc::clone(&function.state);
        let template = Template::build(|steps| {
            steps
                .add(move |asi, ()| {
                    let cx = Cx::<S, P>::of_request(asi, &service, source)?;
                    level.enter(asi, cx, ())?;
                    asi.add_inner(|asi, (_, result): (Cx<S, P>, R)| asi.success((result,)));
                    Ok(())
                })
                .named(function.name)
                .located_at(source)
                .on_error(|_, error| Err(coded::<S>(error.clone().into())));
        });
        Built { template, front: None, mistakes }
    }
}
