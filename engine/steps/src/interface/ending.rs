//! Ending the running step (FTN12 §2.2.2) and iterations of loops (§2.2.4).

use std::borrow::Cow;

use crate::args::Arguments;
use crate::error::{Error, ErrorCode, Info, LoopEnd, StepError, StepFault, StepResult};
use crate::stack::{AsyncSteps, Callback};

/// Execution API: completing or failing the running step (FTN12 §2.2.2).
impl AsyncSteps {
    /// Completes the step with a result: the arguments of the next step.
    ///
    /// # Errors
    /// Records `InternalError` if the step has sub-steps, was completed before, also from outside, or
    /// is the step of a parallel branch and the result is not empty.
    pub fn success(&mut self, result: impl Arguments) -> StepResult {
        self.check()?;
        match self.callback {
            Callback::Body | Callback::ErrorHandler => {}
            Callback::CancelHandler => return self.violation("success in a cancel handler"),
            Callback::None => return self.violation("success outside of a callback"),
        }
        if self.completed {
            return self.violation("success was called twice");
        }
        if self.strand.has_substeps() {
            return self.violation("success after adding sub-steps");
        }
        if self.strand.top.wait.is_some() {
            self.end_wait()?;
        }
        let result = result.into_args();
        if let Err(error) = self.check_result(&result) {
            self.raised = Some(StepFault::Error(error));
            return Err(StepError::RECORDED);
        }
        self.strand.args = result;
        self.completed = true;
        Ok(())
    }

    /// Fails the step with a code and information for people; pass `()` for none.
    ///
    /// In an error handler it replaces the error (FTN12 §1.2). With the same code the error is raised
    /// again: the new one is [caused](std::error::Error::source) by it and knows its
    /// [attempts](Error::attempts).
    ///
    /// # Errors
    /// Always: return it, or not; the step fails either way, with the first error of several.
    pub fn error(&mut self, code: impl Into<ErrorCode>, info: impl Into<Info>) -> StepResult {
        self.check()?;
        if self.completed {
            return self.violation("error after success");
        }
        // a cancel handler finds the sub-steps that its step had
        if self.strand.has_substeps() && self.callback != Callback::CancelHandler {
            return self.violation("error after adding sub-steps");
        }
        let (code, info, location) = (code.into(), info.into(), self.location());
        let handled = self.last_error.as_ref().filter(|_| self.callback == Callback::ErrorHandler);
        let error = match handled {
            Some(handled) => Error::raised_for(handled, code, info, location),
            None => Error::raised(code, info, location),
        };
        self.raised = Some(StepFault::Error(error));
        Err(StepError::RECORDED)
    }

    /// Hides the loops around the running step from the steps inside of it: [`break_loop`](Self::break_loop) and
    /// [`continue_loop`](Self::continue_loop) do not reach them. It is for a library whose loops are its own business.
    pub fn hide_loops(&mut self) {
        self.extras().hides_loops = true;
    }

    /// Leaves a loop: the innermost one for `None`, else the nearest with this label
    /// (FTN12 §2.2.4 `break`).
    ///
    /// # Errors
    /// Always; `InternalError` if there is no such loop, or the step has sub-steps or has completed.
    pub fn break_loop<'a>(&mut self, label: impl Into<Option<&'a str>>) -> StepResult {
        self.end_iteration(LoopEnd { continues: false, label: own_label(label.into()) })
    }

    /// Goes on with the next iteration of a loop: the innermost one for `None`, else the nearest
    /// with this label (FTN12 §2.2.4 `continue`).
    ///
    /// # Errors
    /// Always; `InternalError` if there is no such loop, or the step has sub-steps or has completed.
    pub fn continue_loop<'a>(&mut self, label: impl Into<Option<&'a str>>) -> StepResult {
        self.end_iteration(LoopEnd { continues: true, label: own_label(label.into()) })
    }

    fn end_iteration(&mut self, end: LoopEnd) -> StepResult {
        self.check()?;
        if self.completed {
            return self.violation("the end of a loop after success");
        }
        // a cancel handler finds the sub-steps that its step had
        if self.strand.has_substeps() && self.callback != Callback::CancelHandler {
            return self.violation("the end of a loop after adding sub-steps");
        }
        self.raised = Some(StepFault::Loop(Box::new(end)));
        Err(StepError::RECORDED)
    }
}

fn own_label(label: Option<&str>) -> Option<Cow<'static, str>> {
    label.map(|label| Cow::Owned(label.to_owned()))
}
