//! The parts of a handle put together.

use crate::abi::FutoInAsyncStepsAPI;
use crate::guard;
use crate::handle::{Handle, HandleParts};
use crate::local::LocalPart;
use crate::pool::Use;
use crate::remote::{External, RemotePart};
use crate::table::API;

impl HandleParts for Handle {
    const TABLE: *const FutoInAsyncStepsAPI = &raw const API;

    type Local = LocalPart;

    type Remote = RemotePart;

    fn root_of(local: &LocalPart) -> Option<Self> {
        local.root
    }

    fn release(self, mut local: LocalPart, is_answered: bool) -> Use {
        let mut after = if local.attached { Use::Ended } else { Use::Brief };
        if local.has_remote || is_answered {
            let remote = self.take_remote();
            match &remote.external {
                External::Waiting(_) if !local.has_steps => after = Use::Unanswered,
                External::Early(generation, _) if *generation == self.generation() => {
                    after = Use::Unanswered;
                    guard::log(c"a step that does not wait was completed by another thread");
                }
                External::None
                | External::Early(..)
                | External::Waiting(_)
                | External::Completed => {}
            }
            // destructors from outside may use the pool
            drop(remote);
        }
        local.release();
        after
    }
}
