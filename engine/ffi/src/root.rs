//! Roots: made, executed, cancelled and freed from outside (FTN12 §2.2.3, §2.7.2).
#![expect(unsafe_code, reason = "a root is handed over to the thread of its event loop")]

use std::cell::RefMut;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Flow, Outcome};

use crate::abi::HandleError;
use crate::context::Context;
use crate::end::RootEnd;
use crate::guard::{Misuse, c_text, report};
use crate::handle::Handle;
use crate::host::EventLoop;
use crate::local::{LocalPart, Target};
use crate::remote::{RemotePart, Root, RootPhase};
use crate::steps;

/// Makes a flow a root, whose handle lives until it is freed.
pub(crate) fn open(mut flow: Flow, host: Arc<dyn EventLoop>) -> Handle {
    let handle = Handle::open();
    let context = Context::of(flow.steps());
    context.set_host(&host);
    let shared = context.share(flow.steps()).clone();
    if let Ok(mut remote) = handle.remote() {
        remote.root = Some(Box::new(Root::new(flow.canceller())));
        remote.shared = Some(shared);
        remote.host = Some(host);
    }
    handle.set_id(steps::id(flow.steps()));
    let root = LocalPart {
        target: Target::Root(Box::new(flow)),
        context: Some(context),
        attached: true,
        has_remote: true,
        is_root: true,
        ..LocalPart::default()
    };
    handle.init(|local| *local = root);
    handle
}

/// The handler for an error that ends a root.
#[derive(Clone, Copy)]
pub(crate) struct Unhandled {
    pub(crate) handler: Option<HandleError>,
    pub(crate) data: *mut c_void,
}

// SAFETY: the caller of `execute` hands the data to the thread of the loop, where FTN12 §2.7.2 lets
// the handler be called
unsafe impl Send for Unhandled {}

impl Unhandled {
    fn tell(self, root: Handle, code: &str) {
        match self.handler {
            // SAFETY: FTN12 §2.7.2 wants the handler called with the root, its data and the code
            Some(handler) => unsafe { handler(root.as_ptr(), self.data, c_text(code).as_ptr()) },
            None => report(&format!("execute: unhandled error: {code}")),
        }
    }
}

impl Handle {
    /// Starts a root on its event loop.
    pub(crate) fn execute(self, unhandled: Unhandled) -> Result<(), Misuse> {
        let is_own = self.is_same_thread();
        let (host, executing) = {
            let mut remote = self.remote()?;
            let host = remote.host.clone();
            let root = remote.root.as_mut().ok_or(Misuse::NotRoot)?;
            let (run, end) = root.start(is_own).ok_or(Misuse::Rule("the root is executing"))?;
            (host.ok_or(Misuse::NotRoot)?, Executing { root: self, run, end })
        };
        self.give_up();
        if host.is_same_thread() {
            executing.start(&host, unhandled);
        } else {
            let on = Arc::clone(&host);
            host.post(Box::new(move || executing.start(&on, unhandled)));
        }
        Ok(())
    }

    /// A root that ended can be configured again: it is a new flow with the same state.
    pub(crate) fn reopen(self, local: &mut LocalPart) {
        let (Target::Ended, Some(context)) = (&local.target, &local.context) else { return };
        let mut flow = Flow::new();
        context.attach_to(flow.steps());
        self.set_id(steps::id(flow.steps()));
        if let Ok(mut remote) = self.remote()
            && let Some(root) = &mut remote.root
        {
            root.canceller = flow.canceller();
        }
        local.target = Target::Root(Box::new(flow));
    }

    pub(crate) fn cancel(self) -> Result<(), Misuse> {
        let (canceller, end, host) = {
            let remote = self.remote()?;
            let root = remote.root.as_ref().ok_or(Misuse::NotRoot)?;
            (root.canceller.clone(), root.end.clone(), remote.host.clone())
        };
        canceller.cancel();
        if self.is_same_thread() {
            self.end_turn();
        }
        if let Some(end) = end
            && let Some(thread) = host.and_then(|host| host.driver())
        {
            end.wait(thread);
        }
        Ok(())
    }

    /// Whether the flow or step has ended.
    pub(crate) fn is_over(self) -> bool {
        let is_own = self.is_same_thread();
        let is_over = |root: &Root| root.is_idle(is_own) && root.phase != RootPhase::Configuring;
        self.remote().map_or(true, |remote| remote.root.as_deref().is_some_and(is_over))
    }

    /// No step starts any more after the running callback, if that is one of this flow.
    fn end_turn(self) {
        if let Ok(local) = self.local()
            && let Ok(context) = local.context()
        {
            context.is_ended.set(true);
        }
    }

    pub(crate) fn free(self) -> Result<(), Misuse> {
        let host = {
            let mut remote = self.remote()?;
            let root = remote.root.as_ref().ok_or(Misuse::NotRoot)?;
            if root.phase == RootPhase::Configuring {
                // this thread takes it over, and others find no root to execute or free
                remote.root = None;
                self.take_over();
            }
            remote.host.clone()
        };
        match host {
            Some(host) if !self.is_freed_here(&host) => {
                let freed = Freed(self);
                host.post(Box::new(move || drop(freed)));
            }
            Some(_) | None => self.end_root(),
        }
        Ok(())
    }

    fn is_freed_here(self, host: &Arc<dyn EventLoop>) -> bool {
        self.is_same_thread() || host.is_same_thread() && self.claim()
    }

    fn end_root(self) {
        self.end_turn();
        let stop = self.local().ok().and_then(|mut local| local.stop.take());
        // the cancel handlers of the flow may still use the root
        if let Some(stop) = stop {
            stop();
        }
        self.close();
    }
}

/// One execution of a root. Whatever ends it, also the end of the event loop, drops this.
struct Executing {
    root: Handle,
    run: u32,
    end: Arc<RootEnd>,
}

impl Executing {
    fn start(self, host: &Arc<dyn EventLoop>, unhandled: Unhandled) {
        let (root, run) = (self.root, self.run);
        root.adopt();
        let Ok(mut local) = root.local() else { return };
        root.reopen(&mut local);
        let Target::Root(flow) = std::mem::take(&mut local.target) else { return };
        let Some(context) = local.context.clone() else { return };
        drop(local);
        context.is_ended.set(false);
        let stop = host.run(*flow, Box::new(move |outcome| self.over(context, outcome, unhandled)));
        let is_executing =
            |remote: &RemotePart| remote.root.as_ref().is_some_and(|root| root.is_executing(run));
        // otherwise it has ended, and another thread may have the root
        if root.remote().is_ok_and(|remote| is_executing(&remote))
            && let Ok(mut local) = root.local()
        {
            local.stop = Some(stop);
        }
    }

    fn over(self, context: Rc<Context>, outcome: Outcome, unhandled: Unhandled) {
        self.clear();
        let Outcome::Error(error) = outcome else { return };
        context.fail(&error);
        drop(context);
        // not if the root was freed in the meantime
        if self.with_root(|root| root.phase = RootPhase::Ending).is_some() {
            unhandled.tell(self.root, error.code());
        }
    }

    /// Takes the execution out of the local part.
    fn clear(&self) {
        let Some(mut local) = self.local() else { return };
        // a flow that never began, or is configured again, stays
        if matches!(local.target, Target::None) {
            local.target = Target::Ended;
        }
        let stop = local.stop.take();
        drop(local);
        drop(stop);
    }

    /// The local part of the root, unless it was freed or executed again.
    fn local(&self) -> Option<RefMut<'static, LocalPart>> {
        self.with_root(|_| ())?;
        self.root.local().ok()
    }

    /// Changes the root, unless it was freed or executed again.
    fn with_root(&self, change: impl FnOnce(&mut Root)) -> Option<()> {
        let mut remote = self.root.remote().ok()?;
        let root = remote.root.as_mut().filter(|root| root.is_executing(self.run))?;
        change(root);
        Some(())
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.clear();
        if let Some(mut local) = self.local()
            && let Some(context) = &mut local.context
            && Rc::strong_count(context) > 1
        {
            // values of the flow that stay on this thread must not share the context of the root
            *context = context.detach();
        }
        // from here on another thread may configure it
        self.with_root(|root| {
            root.end();
            self.root.unclaim();
        });
        self.end.signal();
    }
}

/// A root to free on the thread of its event loop. If the loop is gone, the thread that drops this
/// frees it.
struct Freed(Handle);

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.is_open() {
            self.0.take_over();
            self.0.end_root();
        }
    }
}
