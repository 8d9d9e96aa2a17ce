//! A durable flow as the executor sees it.

use std::rc::Rc;

use asyncsteps_core::Error;
use asyncsteps_executor::plan::StepView;
use asyncsteps_executor::recorder::{Later, RequestRecorder, StepRecorder};
use asyncsteps_journal::Value;

use crate::flow::DurableFlow;
use crate::life::Turn;
use crate::step::DurableStep;

/// Records a flow for the executor.
pub(crate) struct FlowRecorder(pub(crate) Rc<DurableFlow>);

impl RequestRecorder for FlowRecorder {
    fn function(&self, function: &StepView) -> Rc<dyn StepRecorder> {
        self.0.turns(Turn::Enters);
        Rc::new(DurableStep::new(&self.0, function, self.0.root.clone()))
    }

    fn locks(&self) {
        self.0.locks();
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
