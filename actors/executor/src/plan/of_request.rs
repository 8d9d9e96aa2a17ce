//! The state of a request that its steps share.

use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::random;
use asyncsteps_actors::sync::CallerFences;
use asyncsteps_core::{AsyncSteps, Error};

use super::facts::StepView;
use super::recorded::Host;
use crate::executor::{InboxGuard, RequestSteps, ServedRequest};
use crate::recorder::OfRequest as Recorded;

/// The state that all steps of a request share.
pub(super) struct OfRequest {
    /// The parameters, as the type that the function has.
    pub(super) params: Rc<dyn Any>,
    /// The state of the service.
    pub(super) service: Arc<dyn Any + Send + Sync>,
    pub(super) served: ServedRequest,
    /// Made when it is first asked for.
    id: OnceCell<Arc<str>>,
    /// Its signals, if it takes some and no host records it.
    pub(super) inbox: Option<InboxGuard>,
    /// The values that the request keeps for its steps, by type.
    pub(super) state: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    /// Where the application passed the function to the executor.
    pub(super) source: &'static Location<'static>,
    /// Records the request.
    pub(super) host: Option<Host>,
}

/// A value that the steps of a request find as [`Cx::state`](super::Cx::state) of its type, without making it: from the
/// [front](crate::Functions::on_behind) of its function, which attaches it to the flow with
/// [`extend`](AsyncSteps::extend) before it adds the [own steps](crate::RequestInfo::own_steps) of the function.
#[derive(Clone, derive_more::Debug)]
#[debug("GivenState {{ .. }}")]
pub struct GivenState {
    of: TypeId,
    value: Rc<dyn Any>,
}

impl GivenState {
    /// This value.
    #[must_use]
    pub fn new<T: 'static>(value: Rc<T>) -> Self {
        Self { of: TypeId::of::<T>(), value }
    }
}

/// What the context of a request needs of its function.
pub(super) struct OfFunction {
    pub(super) service: Arc<dyn Any + Send + Sync>,
    /// It as a whole.
    pub(super) step: StepView,
    pub(super) takes_signals: bool,
    /// A host carries its requests out.
    pub(super) is_hosted: bool,
}

impl OfRequest {
    /// The state of the request that the flow serves.
    pub(super) fn new(
        asi: &AsyncSteps,
        params: Rc<dyn Any>,
        function: &OfFunction,
    ) -> Result<Self, Error> {
        let info = asi.request()?;
        let OfFunction { service, step, takes_signals, is_hosted } = function;
        let source = step.source();
        let recorded = asi.extension::<Recorded>();
        let id = recorded.map_or_else(OnceCell::new, |of| OnceCell::from(Arc::clone(&of.id)));
        let host = recorded.map(|Recorded { recorder, .. }| Host {
            request: Rc::clone(recorder),
            function: recorder.function(step),
        });
        let takes_signals = *takes_signals && host.is_none();
        let executor = takes_signals.then(|| info.executor());
        let inbox =
            executor.map(|executor| executor.takes_signals(id.get_or_init(|| random::id().into())));
        let fences = asi.extension().map(|CallerFences(fences)| fences.clone()).unwrap_or_default();
        let state = asi.extension().map(|GivenState { of, value }| (*of, Rc::clone(value)));
        Ok(Self {
            params,
            service: Arc::clone(service),
            // no step is around the function, so there are only the fencing tokens of the caller
            served: info.handle().hosted(*is_hosted).with_fences(fences),
            id,
            inbox,
            state: RefCell::new(state.into_iter().collect()),
            source,
            host,
        })
    }

    /// See [`Cx::id`](super::Cx::id).
    pub(super) fn id(&self) -> &str {
        self.id.get_or_init(|| random::id().into())
    }

    /// Closes the inbox for signals when the running step fails, which is the function as a whole: what it did is undone
    /// then.
    pub(super) fn close_inbox_at_end(&self, asi: &mut AsyncSteps) {
        if let Some(inbox) = &self.inbox {
            let inbox = Arc::clone(inbox.inbox());
            asi.set_cancel(move |_| inbox.close());
        }
    }
}
