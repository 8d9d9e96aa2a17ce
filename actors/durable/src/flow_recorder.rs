//! A durable flow as the executor sees it.

use std::rc::Rc;

use asyncsteps_core::Error;
use asyncsteps_executor::recorder::{DefinedStep, Later, RequestRecorder, StepRecorder};
use asyncsteps_journal::Value;

use crate::flow::DurableFlow;
use crate::life::Turn;
use crate::step::DurableStep;

/// Records a flow for the executor.
pub(crate) struct FlowRecorder(pub(crate) Rc<DurableFlow>);

impl RequestRecorder for FlowRecorder {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn step(&self, step: Rc<DefinedStep>) -> Rc<dyn StepRecorder> {
        if step.is_function() {
            self.0.turns(Turn::Enters);
        }
        Rc::new(DurableStep::new(Rc::clone(&self.0), step))
    }

    fn locks(&self) {
        self.0.locks();
    }

    fn is_to_undo(&self) -> bool {
        let replay = self.0.replay.borrow();
        replay.only_ends() || replay.is_to_undo(&self.0.root)
    }

    fn undone(&self) -> Later<Result<(), Error>> {
        Box::pin(Rc::clone(&self.0).goes_on())
    }

    fn finished(&self) {
        self.0.turns(Turn::Finishes);
    }

    fn ends_with(&self, result: &serde_json::Value) -> Result<(), Error> {
        let stored = Value::encode_json(result);
        stored.map(drop).map_err(|error| Error::unexpected(format!("the result: {error}")))
    }

    fn interruption(&self) -> Option<Error> {
        self.0.interruption()
    }

    fn interrupted(&self) -> Later<Error> {
        let flow = Rc::clone(&self.0);
        Box::pin(async move { flow.interrupted().await })
    }
}
