//! The functions of the table inside of a flow (FTN12 §2.7.2, 0 to 12 and 15 to 17).

use std::ffi::c_void;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Completion, Foreign, SharedState, codes};

use crate::abi::{Cancel, CleanupMemory, HandleError};
use crate::context::Context;
use crate::guard::Misuse;
use crate::handle::{Handle, OpenHandle};
use crate::host::EventLoop;
use crate::local::{LocalPart, Target};
use crate::remote::{External, ExternalAnswer};
use crate::steps::{self, Addition, ForeignHandler, ParallelStep};
use crate::value::{UnknownFlags, Values};

type Done = Result<(), Misuse>;

impl Handle {
    /// Adds the steps that `make` returns.
    pub(crate) fn add<A: Addition>(self, make: impl FnOnce(&Rc<Context>) -> A) -> Done {
        let mut local = self.local()?;
        let addition = make(local.context()?);
        self.add_made(&mut local, addition)
    }

    fn add_made(self, local: &mut LocalPart, addition: impl Addition) -> Done {
        if self.is_running() {
            self.with_asi(|asi| {
                self.attach(local, asi);
                local.has_steps = true;
                addition.add_to(asi);
            });
            return Ok(());
        }
        self.reopen(local);
        match &mut local.target {
            Target::None | Target::Ended => return Err(Misuse::NotRunning),
            Target::Root(flow) => addition.add_to(flow.steps()),
            Target::Branches(branches) => match &mut *branches.borrow_mut() {
                Some(branches) => branches.push(Box::new(|to| addition.branch_of(to))),
                None => {
                    return Err(Misuse::Rule("a parallel step takes no branches after its start"));
                }
            },
        }
        Ok(())
    }

    /// Calls `run` with the interface of the running callback, or of a root that is being configured.
    fn with_steps<R>(
        self,
        local: &mut LocalPart,
        run: impl FnOnce(&mut AsyncSteps) -> R,
    ) -> Option<R> {
        self.reopen(local);
        match &mut local.target {
            Target::Root(flow) => Some(run(flow.steps())),
            Target::None | Target::Ended | Target::Branches(_) => self.with_asi(run),
        }
    }

    /// Makes the handle live as long as the running step.
    fn attach(self, local: &mut LocalPart, asi: &mut AsyncSteps) {
        // a flow that is being configured has no running step
        if asi.is_valid() && !mem::replace(&mut local.attached, true) {
            self.mark_used();
            self.set_id(steps::id(asi));
            asi.hold(OpenHandle(self));
        }
    }

    pub(crate) fn parallel(
        self,
        data: *mut c_void,
        handler: Option<HandleError>,
    ) -> Result<Self, Misuse> {
        let mut local = self.local()?;
        let context = local.context()?;
        let root = if local.is_root { Some(self) } else { local.root };
        let handler = handler.map(|handle_error| ForeignHandler {
            context: Rc::clone(context),
            data,
            handle_error,
        });
        let parallel = ParallelStep::new(context, root, handler);
        let handle = parallel.handle();
        self.add_made(&mut local, parallel)?;
        Ok(handle)
    }

    pub(crate) fn stack(
        self,
        size: usize,
        cleanup: Option<CleanupMemory>,
    ) -> Result<*mut c_void, Misuse> {
        let mut local = self.local()?;
        self.with_asi(|asi| self.attach(&mut local, asi));
        let block = if local.is_root || !local.attached {
            local.context()?.memory.borrow_mut().add(size, cleanup)
        } else {
            local.memory.add(size, cleanup)
        };
        if block.is_null() { Err(Misuse::Rule("no memory of that size")) } else { Ok(block) }
    }

    pub(crate) fn success(self, values: Result<Values, UnknownFlags>) -> Done {
        let mut values = Some(values);
        if self.is_same_thread() {
            let mut local = self.local()?;
            // the flow records a mistake
            self.with_steps(&mut local, |asi| match values.take() {
                Some(Ok(values)) => drop(asi.success(Foreign(values))),
                Some(Err(why)) => drop(asi.error(codes::INTERNAL_ERROR, why.to_string())),
                None => {}
            });
        }
        values.map_or(Ok(()), |values| self.answer(ExternalAnswer::Success(values)))
    }

    pub(crate) fn handle_error(self, code: String, info: Option<String>) -> Done {
        if self.is_same_thread() {
            let mut local = self.local()?;
            if self.is_running() {
                self.mark_used();
                local.error = Some((code, info));
                return Ok(());
            }
            // the flow records it
            let raise = |asi: &mut AsyncSteps| drop(asi.error(code.clone(), info.clone()));
            if self.with_steps(&mut local, raise).is_some() {
                return Ok(());
            }
        }
        self.answer(ExternalAnswer::Error(code, info))
    }

    /// Completes the step from outside.
    fn answer(self, answer: ExternalAnswer) -> Done {
        let mut remote = self.remote()?;
        match mem::take(&mut remote.external) {
            External::Waiting(completion) => {
                remote.external = External::Completed;
                drop(remote);
                answer.send(&completion).map_err(|_| Misuse::Stale)
            }
            External::Completed => {
                remote.external = External::Completed;
                Err(Misuse::Stale)
            }
            External::Early(of, first) if of == self.generation() => {
                remote.external = External::Early(of, first);
                Err(Misuse::Stale)
            }
            before @ (External::None | External::Early(..)) => {
                let is_called = self.is_called();
                if is_called {
                    remote.external = External::Early(self.generation(), Box::new(answer));
                    self.mark_answered();
                }
                drop(remote);
                // its destructor is foreign code
                drop(before);
                if is_called { Ok(()) } else { Err(Misuse::NotWaiting) }
            }
        }
    }

    pub(crate) fn set_timeout(self, limit: Duration) -> Done {
        self.wait(|_, asi| asi.set_timeout(limit))
    }

    pub(crate) fn set_cancel(self, data: *mut c_void, handler: Option<Cancel>) -> Done {
        self.wait(|context, asi| steps::set_cancel(context, asi, data, handler))
    }

    pub(crate) fn wait_external(self) -> Done {
        self.wait(|_, asi| asi.wait_only())
    }

    /// Makes the running step wait. Any thread may complete it then.
    fn wait(self, arm: impl FnOnce(&Rc<Context>, &mut AsyncSteps)) -> Done {
        let mut local = self.local()?;
        let context = Rc::clone(local.context()?);
        let armed = self.with_steps(&mut local, |asi| {
            arm(&context, asi);
            asi.check().is_ok()
        });
        if !armed.ok_or(Misuse::NotRunning)? {
            // the callback has failed, or may not wait
            return Ok(());
        }
        let external = self.with_asi(|asi| {
            self.attach(&mut local, asi);
            let is_new = !mem::replace(&mut local.has_remote, true);
            is_new.then(|| (asi.completion(), context.share(asi).clone()))
        });
        match external.flatten() {
            Some((completion, shared)) => self.open_wait(completion, &context, shared),
            None => Ok(()),
        }
    }

    /// Lets any thread complete the step from now on. An early answer completes it at once.
    fn open_wait(self, completion: Completion, context: &Context, shared: SharedState) -> Done {
        let host = context.host().ok().cloned();
        let mut remote = self.remote()?;
        remote.host = host;
        remote.shared = Some(shared);
        match mem::replace(&mut remote.external, External::Completed) {
            External::Early(of, answer) if of == self.generation() => {
                drop(remote);
                // nothing else has completed it
                let _ = answer.send(&completion);
            }
            before @ (External::None
            | External::Early(..)
            | External::Waiting(_)
            | External::Completed) => {
                remote.external = External::Waiting(Box::new(completion));
                drop(remote);
                drop(before);
            }
        }
        Ok(())
    }

    pub(crate) fn end_iteration(self, again: bool, label: Option<&str>) -> Done {
        let mut local = self.local()?;
        // the flow records it
        let end = self.with_steps(&mut local, |asi| {
            drop(if again { asi.continue_loop(label) } else { asi.break_loop(label) });
        });
        end.ok_or(Misuse::NotRunning)
    }

    pub(crate) fn root_id(self) -> Result<isize, Misuse> {
        if let Some(id) = self.id() {
            return Ok(id);
        }
        let id = self.with_steps(&mut *self.local()?, steps::id).ok_or(Misuse::NotRunning)?;
        self.set_id(id);
        Ok(id)
    }

    /// Whether the step is in progress, or the root can be configured.
    pub(crate) fn is_valid(self) -> Result<bool, Misuse> {
        let is_own = self.is_same_thread();
        Ok(self.remote()?.root.as_ref().is_none_or(|root| root.is_idle(is_own)))
    }

    /// The event loop of the flow.
    pub(crate) fn host(self) -> Result<Arc<dyn EventLoop>, Misuse> {
        if self.is_same_thread() {
            return self.local()?.context()?.host().cloned();
        }
        let host = self.remote()?.host.clone();
        host.ok_or(Misuse::ELSEWHERE)
    }

    /// Fails the running callback, which broke a rule.
    pub(crate) fn raise(self, rule: &str) {
        if let Ok(mut local) = self.local() {
            // the flow records it
            self.with_steps(&mut local, |asi| {
                drop(asi.error(codes::INTERNAL_ERROR, rule.to_owned()));
            });
        }
    }
}
