//! Cancelling a flow from any thread.

/// Cancels a flow from any thread (FTN12 §2.2.3 `cancel`); made by
/// [`FlowHandle::canceller`](super::FlowHandle::canceller).
///
/// It reaches the inbox of the flow directly; [`Cancel`](super::Cancel) is the same as a message.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Option<asyncsteps_core::Canceller>);

impl Canceller {
    pub(super) fn new(canceller: Option<asyncsteps_core::Canceller>) -> Self {
        Self(canceller)
    }

    /// Asks the arbiter of the flow to cancel it; called by a step of the flow itself, no further
    /// step runs. A flow that has ended stays as it ended.
    pub fn cancel(&self) {
        if let Some(flow) = &self.0 {
            flow.cancel();
        }
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Canceller>();
};
