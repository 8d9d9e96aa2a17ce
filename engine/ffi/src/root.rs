//! Roots: made, executed, cancelled and freed from outside (FTN12 §2.2.3, §2.7.2).
#![expect(unsafe_code, reason = "a root is handed over to the thread of its event loop")]

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{Flow, Outcome};

use crate::abi::HandleError;
use crate::context::Context;
use crate::guard::{Misuse, c_text, report};
use crate::handle::Handle;
use crate::host::Host;
use crate::local::{Local, Target};
use crate::remote::{Phase, Root};
use crate::steps;

/// Makes a flow a root that is known outside, until it is freed.
pub(crate) fn open(mut flow: Flow, host: Arc<dyn Host>) -> Handle {
    let handle = Handle::open();
    let context = Context::of(flow.steps());
    context.settle(&host);
    handle.set_id(steps::id(flow.steps()));
    let shared = context.share(flow.steps()).clone();
    if let Ok(mut remote) = handle.remote() {
        let root = Root { canceller: flow.canceller(), phase: Phase::Configuring };
        remote.root = Some(Box::new(root));
        remote.shared = Some(shared);
        remote.host = Some(host);
    }
    handle.set_local(Local {
        target: Target::Root(Box::new(flow)),
        context: Some(context),
        attached: true,
        has_remote: true,
        is_root: true,
        ..Local::default()
    });
    handle
}

/// Whom to tell about the error that ended a root.
#[derive(Clone, Copy)]
pub(crate) struct Unhandled {
    pub(crate) handler: Option<HandleError>,
    pub(crate) data: *mut c_void,
}

// SAFETY: whoever executes a root gives the data to the thread of the loop, which is where FTN12
// §2.7.2 has the handler called
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
        let host = {
            let mut remote = self.remote()?;
            let host = remote.host.clone();
            let root = remote.root.as_mut().ok_or(Misuse::NotRoot)?;
            if root.phase != Phase::Configuring {
                return Err(Misuse::Rule("a root is executed once"));
            }
            root.phase = Phase::Executing;
            host.ok_or(Misuse::NotRoot)?
        };
        self.give_up();
        let flow = Executing(self);
        if host.is_same_thread() {
            flow.start(&host, unhandled);
        } else {
            let on = Arc::clone(&host);
            host.post(Box::new(move || flow.start(&on, unhandled)));
        }
        Ok(())
    }

    pub(crate) fn cancel(self) -> Result<(), Misuse> {
        let canceller = self.remote()?.root.as_ref().ok_or(Misuse::NotRoot)?.canceller.clone();
        canceller.cancel();
        if self.is_same_thread() {
            self.end_turn();
        }
        Ok(())
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
            if root.phase == Phase::Configuring {
                // it is handed over to this thread, and others find no root to execute or free
                remote.root = None;
                self.inherit();
            }
            remote.host.clone()
        };
        match host {
            Some(host) if !self.is_same_thread() => {
                let freed = Freed(self);
                host.post(Box::new(move || drop(freed)));
            }
            Some(_) | None => self.end_root(),
        }
        Ok(())
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

/// A root that is executed: whatever ends that, also the end of its event loop, drops this.
struct Executing(Handle);

impl Executing {
    fn start(self, host: &Arc<dyn Host>, unhandled: Unhandled) {
        let root = self.0;
        root.adopt();
        let Ok(mut local) = root.local() else { return };
        let Target::Root(flow) = std::mem::take(&mut local.target) else { return };
        let Some(context) = local.context.clone() else { return };
        drop(local);
        let stop =
            host.run(*flow, Box::new(move |outcome| self.over(&context, outcome, unhandled)));
        if let Ok(mut local) = root.local() {
            local.stop = Some(stop);
        }
    }

    fn over(self, context: &Rc<Context>, outcome: Outcome, unhandled: Unhandled) {
        let root = self.0;
        drop(self);
        let Outcome::Error(error) = outcome else { return };
        context.fail(&error);
        // a root that was freed in the meantime has nobody to be told
        if root.is_open() {
            unhandled.tell(root, error.code());
        }
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        if let Ok(mut remote) = self.0.remote()
            && let Some(root) = &mut remote.root
        {
            root.phase = Phase::Over;
        }
    }
}

/// A root that is to be freed on the thread of its event loop, or, if the loop is gone, wherever
/// that turns out.
struct Freed(Handle);

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.is_open() {
            self.0.inherit();
            self.0.end_root();
        }
    }
}
