//! Steps that begin other durable requests: the children of theirs.

use std::sync::Arc;

use asyncsteps_core::{BodyResult, Error, Undo, codes};
use asyncsteps_executor::plan::ChildPolicy;
use asyncsteps_executor::recorder::{Codec, Stored, Work};
use asyncsteps_executor::{Cx, Service, Step, TypedCall};
use asyncsteps_journal::{Error as JournalError, Event, Record, Uid};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};

use crate::child::{BEGIN, ChildCall, ChildWork, WAIT};
use crate::durable::Durable;
use crate::json;
use crate::marks::{CHILD, branched};

/// Adds steps that begin requests of other durable functions of the program: the children of the request, see
/// [the guide](crate::guide#children).
///
/// The first step of a function is behind [`pass`](asyncsteps_executor::Steps::pass). `call` makes the parameters of the
/// child from what the step takes, and may be asked again: it depends on nothing else that changes. A child acts for the
/// caller of its parent.
pub trait ThenCalls<S, P, I, T, E>: Sized
where
    S: Service,
    P: 'static,
    T: Clone + Serialize + DeserializeOwned + 'static,
{
    /// Adds a step that begins a child, and waits for its result. The error of a child that fails is that of the step.
    /// If the step fails or is cut, or a later one fails, the child is cancelled, and nothing in front of the step is
    /// undone before the child has undone what it did. A child that has completed stays as it is.
    ///
    /// The limits of the step count for its wait, and a further attempt of it begins a further child.
    #[track_caller]
    fn then_child<C: TypedCall>(
        self,
        name: &'static str,
        call: impl Fn(&Cx<S, P>, &T) -> C + Send + Sync + 'static,
    ) -> Step<S, P, I, T, C::Result, E> {
        self.then_child_undo(name, call, async |_, _| Ok(()))
    }

    /// The same with an undo for a child that has completed, which gets its result.
    fn then_child_undo<C: TypedCall>(
        self,
        name: &'static str,
        call: impl Fn(&Cx<S, P>, &T) -> C + Send + Sync + 'static,
        undo: impl AsyncFn(&Cx<S, P>, &C::Result) -> BodyResult<()> + Send + Sync + 'static,
    ) -> Step<S, P, I, T, C::Result, E>;

    /// Adds a step that begins a child, which is not waited for and goes on whatever becomes of its parent. The step
    /// returns the name of the child, which its [undo](Step::undo) gets.
    fn then_submit<C: TypedCall>(
        self,
        name: &'static str,
        call: impl Fn(&Cx<S, P>, &T) -> C + Send + Sync + 'static,
    ) -> Step<S, P, I, T, Uid, E>;
}

impl<S, P, I, A, T, E> ThenCalls<S, P, I, T, E> for Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: Clone + Serialize + DeserializeOwned + 'static,
{
    #[track_caller]
    fn then_child_undo<C: TypedCall>(
        self,
        name: &'static str,
        call: impl Fn(&Cx<S, P>, &T) -> C + Send + Sync + 'static,
        undo: impl AsyncFn(&Cx<S, P>, &C::Result) -> BodyResult<()> + Send + Sync + 'static,
    ) -> Step<S, P, I, T, C::Result, E> {
        let begins = Arc::new(call);
        let ends = Arc::clone(&begins);
        let result = Codec { read: |stored| of_json::<C>(stored), ..Codec::of_others() };
        self.then_nested(name, |steps| {
            steps
                .run(BEGIN, async move |cx, input: T| begin(cx, &begins(cx, &input), true).await)
                .recorded_with_input()
                .begins_child(C::FUNCTION, ChildPolicy::Cancel)
                .undo_taking(async move |cx, input, _: Undo<&Uid>| {
                    let work = ChildWork::End(called(cx, &ends(cx, input), true)?);
                    let ended = cx.by_host(Box::new(work)).await?;
                    if ended.is_empty() { Ok(()) } else { undo(cx, &of_json::<C>(&ended)?).await }
                })
                .then_host_wait(WAIT, result, |uid| Box::new(ChildWork::Await(uid)) as Work)
                .returns()
        })
    }

    #[track_caller]
    fn then_submit<C: TypedCall>(
        self,
        name: &'static str,
        call: impl Fn(&Cx<S, P>, &T) -> C + Send + Sync + 'static,
    ) -> Step<S, P, I, T, Uid, E> {
        self.then(name, async move |cx, input: T| begin(cx, &call(cx, &input), false).await)
            .recorded()
            .begins_child(C::FUNCTION, ChildPolicy::Leave)
    }
}

/// Begins the child, and returns its name.
async fn begin<S: Service, P: 'static>(
    cx: &Cx<S, P>,
    call: &impl TypedCall,
    waits: bool,
) -> BodyResult<Uid> {
    let begun = cx.by_host(Box::new(ChildWork::Begin(called(cx, call, waits)?))).await?;
    Ok((Codec::of_results().read)(&begun)?)
}

fn called<S: Service, P: 'static, C: TypedCall>(
    cx: &Cx<S, P>,
    call: &C,
    waits: bool,
) -> BodyResult<ChildCall> {
    let (params, caller) = (json::params(call)?, cx.request().caller());
    Ok(ChildCall { function: C::FUNCTION, params, caller, waits })
}

/// The result of a child, which its function has as JSON.
fn of_json<C: TypedCall>(stored: &Stored) -> Result<C::Result, Error> {
    let json: serde_json::Value = (Codec::of_others().read)(stored)?;
    C::Result::deserialize(json).map_err(|error| Error::caused_by(codes::INVOKER_ERROR, error))
}

/// A request that a step of another one has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Child {
    /// Its name.
    #[schemars(with = "String")]
    pub uid: Uid,
    /// The path of the step.
    pub step: String,
}

impl Durable {
    /// The children that the steps of a request have begun, in order; without those of the iterations of a loop that are
    /// not in its records any more.
    ///
    /// # Errors
    /// The errors of [`status`](Self::status).
    pub async fn children(&self, uid: Uid) -> Result<Vec<Child>, JournalError> {
        let records = self.records(uid).await?;
        let child = |Record { path, event }: &Record| {
            let Event::Keys(it) = event else { return None };
            let step = branched(path, CHILD)?.to_string();
            Some(Child { uid: it.keys.first()?.parse().ok()?, step })
        };
        Ok(records.iter().filter_map(|stored| child(&stored.record)).collect())
    }
}
