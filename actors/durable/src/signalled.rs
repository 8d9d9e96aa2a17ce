//! How the steps of a flow take signals.

use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::Time;
use asyncsteps_executor::recorder::WaitEnd;
use asyncsteps_journal::record::{Done, TakenSignal};
use asyncsteps_journal::request::{Condition, StoredSignal};
use asyncsteps_journal::{Event, Path, Record, Value};

use crate::detached::detached;
use crate::flow::DurableFlow;
use crate::settled::Settled;
use crate::writer::AppendAnswer;

/// Turns of an arbiter in which a race is decided, and its losers are cut.
const TURNS: usize = 3;

impl DurableFlow {
    /// Waits for a signal with one of these names, no longer than `until`; returns its value, or
    /// null.
    pub(crate) async fn signal(
        self: Rc<Self>,
        path: &Path,
        names: &[&str],
        until: Option<(WaitEnd, Time)>,
    ) -> Value {
        loop {
            let signalled = self.signals.changed.notified();
            if let Some(StoredSignal { number, name, value }) = self.signals.take(names) {
                self.rests();
                let taken = TakenSignal { number, name, value: value.clone() };
                self.record(path, [Event::Signal(taken)]);
                return value;
            }
            let Some((end, until)) = until else {
                signalled.await;
                continue;
            };
            tokio::select! {
                biased;
                () = signalled => {}
                () = self.wait_ends(path, end, until) => {
                    let times_out = Rc::clone(&self).times_out(path.clone());
                    if let Some(nothing) = detached(times_out).await {
                        return nothing;
                    }
                }
            }
        }
    }

    /// No other step takes a signal before the steps behind this one have had their turn: if they win a race in it, the
    /// other one is cut, and takes nothing.
    fn rests(self: &Rc<Self>) {
        self.signals.is_resting.set(true);
        let flow = Rc::clone(self);
        actix_rt::spawn(async move {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            flow.signals.is_resting.set(false);
            flow.signals.changed.notify_waiters();
        });
    }

    /// Records that a wait returns null, unless there is a signal that it has not seen.
    async fn times_out(self: Rc<Self>, path: Path) -> Option<Value> {
        let Ok(value) = Value::encode(&None::<()>) else { unreachable!("null can be written") };
        let done = Done { value: value.clone(), attempt: 1, millis: 0 };
        let record = Record::new(path, Event::Done(done));
        let known = record.clone();
        let answer = self.owned.writer.append_last(|entry| {
            entry.records = vec![record];
            entry.condition = Condition::AllSeen;
        });
        let (answer, ticket) = answer.await;
        match answer {
            AppendAnswer::Written(_) => {
                self.replay.borrow_mut().add_stored(vec![(ticket, known)]);
                Some(value)
            }
            AppendAnswer::Unseen => {
                // `read_news` is notified, and delivers the signal
                self.owned.writer.has_news();
                self.signals.changed.notified().await;
                None
            }
            AppendAnswer::Stopped(stopped) => {
                self.leave(stopped.into());
                pending().await
            }
        }
    }

    /// Takes in what operators have said while the flow was paused.
    pub(crate) fn take_settled(&self) {
        for signal in self.signals.take_all(|signal| Settled::path_in(signal).is_some()) {
            let Some(path) = Settled::path_in(&signal) else { continue };
            let StoredSignal { number, name, value } = signal;
            self.record(&path, [Event::Signal(TakenSignal { number, name, value })]);
        }
    }
}
