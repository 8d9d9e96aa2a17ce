//! The binary interface of our steps for foreign code, and foreign callbacks in our templates (FTN12
//! §2.2.1 `binary`).
#![expect(unsafe_code, reason = "foreign callbacks are promised to be callable")]

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, Error, Flow, Foreign, StepResult, TemplateAdded, TemplateSteps};

use crate::abi::{Execute, FutoInAsyncSteps, HandleError, Scheduled};
use crate::context::Context;
use crate::guard::c_text;
use crate::host::EventLoop;
use crate::value::Values;
use crate::{root, steps};

/// Steps with a binary interface (FTN12 §2.2.1 `binary`).
pub trait Binary {
    /// Calls `call` with the binary interface of the running callback, or of a flow that is being
    /// configured.
    ///
    /// Foreign code adds steps to it, completes the step or makes it wait, as in a callback of its
    /// own. An error that it raises is recorded, see [`AsyncSteps::check`]. The pointer is valid while
    /// the step is in progress; later use is refused.
    fn binary<R>(&mut self, call: impl FnOnce(*mut FutoInAsyncSteps) -> R) -> R;
}

impl Binary for AsyncSteps {
    fn binary<R>(&mut self, call: impl FnOnce(*mut FutoInAsyncSteps) -> R) -> R {
        let context = Context::of(self);
        steps::lend(&context, self, call).0
    }
}

impl Binary for Flow {
    fn binary<R>(&mut self, call: impl FnOnce(*mut FutoInAsyncSteps) -> R) -> R {
        self.steps().binary(call)
    }
}

/// Makes a flow a root of the binary interface, to be executed on `host` and freed by the functions
/// of its table.
///
/// Until it is executed it belongs to this thread.
#[must_use = "it leaks unless it is freed"]
pub fn into_root(flow: Flow, host: Arc<dyn EventLoop>) -> *mut FutoInAsyncSteps {
    root::open(flow, host).as_ptr()
}

/// A foreign step for our flows and templates: two callbacks and their data.
///
/// All flows of a template share the data. Clones keep it, and so do the sub-steps and the cancel
/// handler of a running step. Its destructor is called once, on the thread that drops the last of
/// them.
///
/// ```
/// use std::ffi::c_void;
/// use asyncsteps_core::{Template, run_to_end};
/// use asyncsteps_ffi::BinaryStep;
/// use asyncsteps_ffi::abi::{FutoInArgs, FutoInAsyncSteps};
///
/// // as a C compiler would make it: it passes its arguments on
/// unsafe extern "C" fn echo(
///     bsi: *mut FutoInAsyncSteps, _: *mut c_void, args: *const FutoInArgs,
/// ) {
///     unsafe { ((*(*bsi).api).success)(bsi, args.cast_mut()) }
/// }
///
/// // SAFETY: `echo` needs no data
/// let step = unsafe { BinaryStep::new(echo, None, std::ptr::null_mut(), None) };
/// let template = Template::build(|asi| {
///     asi.success_step((7, "text"));
///     step.add_to(asi).named("echo");
/// });
/// assert_eq!(run_to_end::<(i32, String)>(template.flow()).unwrap(), (7, "text".to_owned()));
/// ```
#[derive(Clone)]
pub struct BinaryStep(Arc<Callbacks>);

struct Callbacks {
    execute: Execute,
    handle_error: Option<HandleError>,
    data: *mut c_void,
    destroy: Option<Scheduled>,
}

// SAFETY: the promise of `BinaryStep::new`
unsafe impl Send for Callbacks {}
// SAFETY: the promise of `BinaryStep::new`
unsafe impl Sync for Callbacks {}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the promise of `BinaryStep::new`
            unsafe { destroy(self.data) };
        }
    }
}

impl BinaryStep {
    /// A step that calls `execute`, and `handle_error` for errors, with `data`. `destroy` is called with
    /// it once, at the end of its use.
    ///
    /// # Safety
    /// The callbacks follow FTN12 §2.7.2 and can be called with `data` on any thread, the first two
    /// on several at the same time.
    #[must_use]
    pub unsafe fn new(
        execute: Execute,
        handle_error: Option<HandleError>,
        data: *mut c_void,
        destroy: Option<Scheduled>,
    ) -> Self {
        Self(Arc::new(Callbacks { execute, handle_error, data, destroy }))
    }

    /// Adds the step to a template (FTN12 §1.5), with its error handler if it has one.
    #[track_caller]
    pub fn add_to<'a>(&self, asi: &'a mut TemplateSteps) -> TemplateAdded<'a> {
        let step = self.clone();
        let mut added = asi.add(move |asi, args| step.execute(asi, args));
        if self.0.handle_error.is_some() {
            let step = self.clone();
            added.on_error(move |asi, error| step.handle_error(asi, error));
        }
        added.untyped()
    }

    /// The body of the step.
    ///
    /// # Errors
    /// The error that the callback raised.
    pub fn execute(&self, asi: &mut AsyncSteps, args: Foreign<Values>) -> StepResult {
        let Callbacks { execute, data, .. } = *self.0;
        let mut values = args.0;
        self.call(asi, |bsi| {
            // SAFETY: the promise of `new`; values that it does not take are released with `values`
            unsafe { execute(bsi, data, values.as_args()) };
        })
    }

    /// The error handler of the step; without one the error passes.
    ///
    /// # Errors
    /// The error that the handler raised.
    pub fn handle_error(&self, asi: &mut AsyncSteps, error: &Error) -> StepResult {
        let Callbacks { handle_error, data, .. } = *self.0;
        let Some(handle_error) = handle_error else { return Ok(()) };
        let code = c_text(error.code());
        // SAFETY: the promise of `new`
        self.call(asi, |bsi| unsafe { handle_error(bsi, data, code.as_ptr()) })
    }

    fn call(
        &self,
        asi: &mut AsyncSteps,
        callback: impl FnOnce(*mut FutoInAsyncSteps),
    ) -> StepResult {
        let context = Context::of(asi);
        let ((), kept) = steps::lend(&context, asi, callback);
        if let Some(handle) = kept
            && self.0.destroy.is_some()
        {
            // cancel handlers and sub-steps use the data, too
            let callbacks = Arc::<Callbacks>::clone(&self.0);
            handle.init(|local| local.called = Some(callbacks));
        }
        // its error is recorded in the flow
        Ok(())
    }
}

impl fmt::Debug for BinaryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BinaryStep").field("data", &self.0.data).finish_non_exhaustive()
    }
}
