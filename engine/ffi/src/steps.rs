//! Foreign callbacks as steps of our flows.
#![expect(unsafe_code, reason = "callbacks from outside are called here")]

use std::ffi::{CString, c_void};
use std::mem;
use std::rc::Rc;

use asyncsteps_core::{Added, AsyncSteps, Error, Foreign, Parallel, StepResult};

use crate::abi::{Cancel, Execute, FutoInAsyncSteps, HandleError};
use crate::context::{self, Context};
use crate::guard::{c_text, report};
use crate::handle::{Handle, OpenHandle};
use crate::local::{Branches, LocalPart, Target};
use crate::value::Values;

/// Calls `run` with a handle for the running callback `asi`.
pub(crate) fn call(
    context: &Rc<Context>,
    asi: &mut AsyncSteps,
    run: impl FnOnce(*mut FutoInAsyncSteps),
) -> StepResult {
    // an error that it raised is recorded in the flow
    lend(context, asi, run);
    Ok(())
}

/// Calls `run` with a handle for `asi`, which is of the running callback or of a flow that is being
/// configured. Also returns the handle if the step keeps it.
pub(crate) fn lend<R>(
    context: &Rc<Context>,
    asi: &mut AsyncSteps,
    run: impl FnOnce(*mut FutoInAsyncSteps) -> R,
) -> (R, Option<Handle>) {
    let handle = match context.spare.take() {
        Some(mut spare) => {
            spare.0.renew();
            spare.forget()
        }
        None => Handle::open(),
    };
    // the flow may come from another thread, and the branch may be another one
    handle.take_over();
    handle.set_id(0);
    set_context(handle, Some(context));
    let attached = OpenHandle(handle);
    let (result, is_used) = handle.call(asi, run);
    if context.is_ended.get() {
        asi.relinquish();
    }
    if !is_used {
        // the context keeps the unused handle, which therefore must not keep the context
        set_context(handle, None);
        context.spare.set(Some(attached));
        return (result, None);
    }
    let kept = end_callback(handle, asi).then(|| attached.forget());
    (result, kept)
}

/// Sets the context of a handle that was just opened.
fn set_context(handle: Handle, context: Option<&Rc<Context>>) {
    // the old one goes after the change: it may be the last reference to its flow's data
    let old = handle.init(|local| mem::replace(&mut local.context, context.map(Rc::clone)));
    drop(old);
}

/// Raises the error that a callback passed to `handle_error`. Says whether its step keeps the
/// handle.
#[cold]
fn end_callback(handle: Handle, asi: &mut AsyncSteps) -> bool {
    let Ok(mut local) = handle.local() else { return false };
    let (error, attached) = (local.error.take(), local.attached);
    drop(local);
    if let Some((code, info)) = error {
        // the flow records it
        let _ = asi.error(code, info);
    }
    attached
}

/// A step that can be added to steps, or to a parallel step as a branch.
pub(crate) trait Addition: Sized + 'static {
    fn add_to(self, asi: &mut AsyncSteps);

    fn branch_of(self, parallel: &mut Parallel) {
        parallel.add(move |asi, ()| self.add_to(asi));
    }
}

/// A step: two callbacks and their data.
#[derive(Clone)]
pub(crate) struct ForeignStep {
    pub(crate) context: Rc<Context>,
    pub(crate) data: *mut c_void,
    pub(crate) execute: Execute,
    pub(crate) handle_error: Option<HandleError>,
}

impl Addition for ForeignStep {
    fn add_to(self, asi: &mut AsyncSteps) {
        let handler = self.handler();
        ForeignHandler::set(
            handler,
            &mut asi.add(move |asi, Foreign(values)| self.execute(asi, values)),
        );
    }

    fn branch_of(self, parallel: &mut Parallel) {
        let handler = self.handler();
        let added = &mut parallel.add(move |asi, ()| self.execute(asi, Values::NONE));
        ForeignHandler::set(handler, added);
    }
}

impl ForeignStep {
    pub(crate) fn execute(&self, asi: &mut AsyncSteps, mut values: Values) -> StepResult {
        let (execute, data) = (self.execute, self.data);
        // SAFETY: FTN12 §2.1 wants the callback called with its data; values that it does not take
        // are released with `values`
        call(&self.context, asi, |bsi| unsafe { execute(bsi, data, values.as_args()) })
    }

    pub(crate) fn handler(&self) -> Option<ForeignHandler> {
        let handle_error = self.handle_error?;
        Some(ForeignHandler { context: Rc::clone(&self.context), data: self.data, handle_error })
    }
}

/// An error handler and its data.
pub(crate) struct ForeignHandler {
    pub(crate) context: Rc<Context>,
    pub(crate) data: *mut c_void,
    pub(crate) handle_error: HandleError,
}

impl ForeignHandler {
    pub(crate) fn set(handler: Option<Self>, added: &mut Added<'_>) {
        if let Some(handler) = handler {
            added.on_error(move |asi, error| handler.call(asi, error));
        }
    }

    pub(crate) fn call(&self, asi: &mut AsyncSteps, error: &Error) -> StepResult {
        let code: CString = c_text(error.code());
        let (handler, data) = (self.handle_error, self.data);
        // SAFETY: FTN12 §2.1 wants the handler called with its data and the code
        call(&self.context, asi, |bsi| unsafe { handler(bsi, data, code.as_ptr()) })
    }
}

/// A parallel step. Its branches are added to its handle before it starts.
pub(crate) struct ParallelStep {
    attached: OpenHandle,
    branches: Branches,
    handler: Option<ForeignHandler>,
}

impl ParallelStep {
    pub(crate) fn new(
        context: &Rc<Context>,
        root: Option<Handle>,
        handler: Option<ForeignHandler>,
    ) -> Self {
        let (handle, branches) = (Handle::open(), Branches::default());
        branches.replace(Some(Vec::new()));
        let target = Target::Branches(Rc::clone(&branches));
        let context = Some(Rc::clone(context));
        let parallel = LocalPart { target, context, root, attached: true, ..LocalPart::default() };
        handle.init(|local| *local = parallel);
        Self { attached: OpenHandle(handle), branches, handler }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.attached.0
    }
}

impl Addition for ParallelStep {
    fn add_to(self, asi: &mut AsyncSteps) {
        let Self { attached, branches, handler } = self;
        let added = &mut asi.add(move |asi, ()| {
            attached.0.take_over();
            attached.0.set_id(id(asi));
            asi.hold(attached);
            let branches = branches.take().unwrap_or_default();
            asi.parallel(|parallel| branches.into_iter().for_each(|add| add(parallel)));
        });
        ForeignHandler::set(handler, added);
    }
}

/// A loop: its body, its number of iterations if that is known, and its label.
pub(crate) struct LoopStep<F> {
    pub(crate) context: Rc<Context>,
    pub(crate) run: F,
    pub(crate) count: Option<usize>,
    pub(crate) label: Option<String>,
}

impl<F: FnMut(*mut FutoInAsyncSteps, usize) + 'static> Addition for LoopStep<F> {
    fn add_to(self, asi: &mut AsyncSteps) {
        let Self { context, run, count, label } = self;
        let mut iterations = ForeignIterations { context, run, handle: None };
        let mut added = match count {
            Some(count) => asi.repeat(count, move |asi, i| iterations.next(asi, i)),
            None => asi.make_loop(move |asi| iterations.next(asi, 0)),
        };
        if let Some(label) = label {
            added.label(label);
        }
    }
}

/// Calls the body of a loop. Iterations share a handle until one of them uses it.
struct ForeignIterations<F> {
    context: Rc<Context>,
    run: F,
    handle: Option<OpenHandle>,
}

impl<F: FnMut(*mut FutoInAsyncSteps, usize)> ForeignIterations<F> {
    // the cost of an iteration: rare work is in other functions
    #[inline]
    fn next(&mut self, asi: &mut AsyncSteps, i: usize) {
        let Self { context, run, handle } = self;
        let own = match handle {
            Some(own) => own,
            None => handle.insert(Self::open(context)),
        };
        let ((), is_used) = own.0.call(asi, |bsi| run(bsi, i));
        if context.is_ended.get() {
            asi.relinquish();
        }
        if is_used { self.end_use(asi) } else { own.0.renew() }
    }

    #[cold]
    fn open(context: &Rc<Context>) -> OpenHandle {
        let handle = Handle::open();
        set_context(handle, Some(context));
        OpenHandle(handle)
    }

    /// The iteration used the handle. If its step keeps it, the step closes it.
    #[cold]
    fn end_use(&mut self, asi: &mut AsyncSteps) {
        if let Some(used) = self.handle.take()
            && end_callback(used.0, asi)
        {
            used.forget();
        }
    }
}

pub(crate) fn set_cancel(
    context: &Rc<Context>,
    asi: &mut AsyncSteps,
    data: *mut c_void,
    handler: Option<Cancel>,
) {
    let context = Rc::clone(context);
    asi.set_cancel(move |asi| {
        let Some(handler) = handler else { return };
        // SAFETY: FTN12 §2.1 wants the handler called with its data
        lend(&context, asi, |bsi| unsafe { handler(bsi, data) });
        if asi.check().is_err() {
            let error = asi.raised().map(|error| context::text_of(error, error.to_string()));
            let error = error.unwrap_or_else(|| "the end of a loop".to_owned());
            report(&format!("a cancel handler failed: {error}"));
        }
    });
}

/// `rootId` of the running branch: flows and branches are counted from 0 in the process.
pub(crate) fn id(asi: &mut AsyncSteps) -> isize {
    let identity = asi.identity();
    let number = identity.flow.number() << BRANCH_BITS | u64::from(identity.branch) & BRANCH_MASK;
    usize::try_from(number & usize::MAX as u64).unwrap_or(usize::MAX).cast_signed()
}

/// Room for sixteen million branches of a flow and a trillion flows.
const BRANCH_BITS: u32 = 24;
const BRANCH_MASK: u64 = (1 << BRANCH_BITS) - 1;
