//! Checks whether open requests go on with a program, without carrying anything out.

use std::rc::Rc;

use asyncsteps_actors::clock;
use asyncsteps_executor::Executor;
use asyncsteps_journal::dump::Dump;
use asyncsteps_journal::request::Loaded;
use asyncsteps_journal::{Clock, Error, LEASE, Path, Reading, SystemClock, Timestamp, Uid};

use crate::durable::Durable;
use crate::flow::{Flow, LeaveReason};
use crate::lease::Lease;
use crate::records::started;
use crate::run::{incoming, refusal, response};
use crate::suspects::Suspects;
use crate::writer::Writer;

/// For how many turns of its arbiter nothing happens in a request that has come to its end.
const QUIET: u32 = 100;

/// What a program does with a request that another one has begun, see [`Durable::replay_check`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// The request.
    pub uid: Uid,
    /// The name of its function in the journal.
    pub template: String,
    /// Why it would be paused, or found by no node: what is recorded, and what the program has. `None` if it
    /// goes on.
    pub divergence: Option<String>,
    /// Steps that are recorded as begun or done and that the check did not come to: they are behind a body
    /// without a record, such as one that is repeated. It says nothing about them.
    pub unreached: Vec<Path>,
}

impl Durable {
    /// The open requests of the journal, to be kept in a file for [`replay_check`](Self::replay_check).
    ///
    /// # Errors
    /// Those of the journal.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn dump(&self) -> Result<Dump, Error> {
        Dump::read(&*self.shared.journal).await
    }

    /// Tells for each request of a dump whether it goes on with the functions of this executor, before
    /// these are deployed. The journal of this handle is not asked; one in memory will do.
    ///
    /// Each function runs from the top and is given what is recorded. The first body without a record ends
    /// the check of its branch: no body runs and no undo, only the code that defines steps and that of
    /// error handlers. So what comes after such a body is not checked: what is recorded of it is
    /// [named](Replayed::unreached).
    ///
    /// ```no_run
    /// # use asyncsteps_durable::{Durable, journal::{dump::Dump, memory::Memory}};
    /// # use asyncsteps_executor::Executor;
    /// # async fn check(executor: Executor, durable: Durable) -> Result<(), Box<dyn std::error::Error>> {
    /// let dump = Dump::from_bytes(&std::fs::read("requests.dump")?)?;
    /// for request in durable.replay_check(&executor, &dump).await {
    ///     assert_eq!(request.divergence, None, "{}", request.uid);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the check.
    pub async fn replay_check(&self, executor: &Executor, dump: &Dump) -> Vec<Replayed> {
        let mut replayed = Vec::with_capacity(dump.flows().len());
        for loaded in dump.flows() {
            let mut unreached = Vec::new();
            replayed.push(Replayed {
                uid: loaded.flow.uid,
                template: loaded.flow.template.clone(),
                divergence: self.replay(executor, loaded, &mut unreached).await.err(),
                unreached,
            });
        }
        replayed
    }

    /// Replays a request; fails with the reason why it does not go on, and notes what it did not come to.
    async fn replay(
        &self,
        executor: &Executor,
        loaded: &Loaded,
        unreached: &mut Vec<Path>,
    ) -> Result<(), String> {
        let template = &loaded.flow.template;
        let program = self.shared.program(template);
        let program = program.ok_or_else(|| format!("there is no function {template}"))?;
        let version = loaded.flow.version;
        if program.version != version && !program.compatible.contains(&version) {
            let own = program.version;
            return Err(format!(
                "it has version {version}, and the program only goes on from {own}"
            ));
        }
        let started = started(loaded).ok_or("it has no beginning")?;
        let names = (loaded.flow.uid, loaded.flow.epoch, program.version);
        let writer = Writer::new(self.shared.journal.clone(), names, loaded.next(), 0);
        // all that is left of waits and limits, because a check is not about time
        let time = Reading { now: SystemClock.now(), passed: Timestamp::default(), jump: None };
        let lease = Rc::new(Lease::new(clock::now(), LEASE, time));
        let flow = Flow::new(
            loaded,
            Path::template(template),
            writer,
            lease,
            0,
            Rc::new(Suspects::new(0)),
        );
        flow.replay_only();
        let incoming = incoming(started, &program, &flow)?;
        let left = Left(Rc::clone(&flow));
        let refused = tokio::select! {
            biased;
            _ = flow.left() => None,
            reply = executor.dispatch(incoming) => response(reply),
            () = comes_to_rest(&flow) => None,
        };
        *unreached = flow.records.borrow().unreached();
        // it may have come to its end and been left in one turn
        match (flow.is_left().then(|| flow.left()), refused) {
            (Some(left), _) => match left.await {
                LeaveReason::Paused(reason) => Err(reason),
                LeaveReason::Lost
                | LeaveReason::Released
                | LeaveReason::Parked(_)
                | LeaveReason::Refused(..) => Ok(()),
            },
            (None, Some(response)) if !left.0.has_begun() => Err(refusal(&response)),
            (None, _) => Ok(()),
        }
    }
}

/// A request that is left when the check of it ends, so that nothing is undone.
struct Left(Rc<Flow>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.leave(LeaveReason::Released);
    }
}

/// Completes when the request has begun, and each of its branches is at a body without a record, or waits.
async fn comes_to_rest(flow: &Flow) {
    let (mut turns, mut happened) = (0, flow.activity.count());
    while turns < QUIET {
        tokio::task::yield_now().await;
        let now = flow.activity.count();
        let is_quiet = flow.has_begun() && now == happened;
        (turns, happened) = (if is_quiet { turns + 1 } else { 0 }, now);
    }
}
