//! The behaviour of steps of durable requests in a crash.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::form::{ChildPolicy, Form};
use super::read::Read;
use super::service::Service;
use super::step::Step;
use crate::recorder::Kind;
use crate::stored::Codec;

/// The behaviour of the step in a crash, in [durable](crate::recorder) requests. Each body in a durable function says
/// `recorded`, `once` or `repeatable`; in other functions they do nothing.
impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: 'static,
{
    /// The result is recorded: after a crash the step returns it again without running. If the crash came
    /// before the record, the body runs again, with the same [key](super::Cx::key): at least once.
    pub fn recorded(self) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        self.stored("recorded", Kind::Recorded)
    }

    /// The same at most once: if it began and it is not known how it ended, the step fails with
    /// `OutcomeUnknown`, and is undone as [`Undo::Unknown`](asyncsteps_core::Undo::Unknown).
    ///
    /// A process that pauses for longer than its lease may go on with the body while another one has the request. So at
    /// most once holds where the other side refuses outdated calls.
    pub fn once(self) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        self.stored("once", Kind::Once)
    }

    /// [`recorded`](Self::recorded), with what the step takes: for an undo or a lock that needs that when the step is
    /// undone after a crash, and the step before is not recorded. If it cannot be stored, such as for its size, the step
    /// fails before its body begins. A loop says this: its state is recorded, and its
    /// result. After a crash it goes on with the iteration that had begun; the records of an iteration are removed when
    /// it ends, unless one of its steps can be undone.
    pub fn recorded_with_input(mut self) -> Self
    where
        A: Serialize + DeserializeOwned,
        T: Serialize + DeserializeOwned,
    {
        let facts = &mut self.last.facts;
        if ![Form::Body, Form::Repeat].contains(&facts.form) {
            facts.misplaced.push("recorded_with_input");
        }
        let read = Some(Read::of(Codec::<A>::of_results()));
        if facts.form == Form::Repeat {
            // it is in the record of its iterations
            facts.read_state = read;
        } else {
            facts.input = read;
        }
        self.last.said.input = Some(Codec::of_results());
        self.of_kind(Kind::Recorded)
    }

    /// Nothing is recorded: the body runs again whenever the request goes on. For what only reads or
    /// computes.
    pub fn repeatable(mut self) -> Self {
        self.last.facts.needs_body("repeatable");
        self.last.facts.kind = Some(Kind::Repeatable);
        self
    }

    /// Says that the step commits the request, such as one that places an order: once it has begun, no cancel, no
    /// deadline and no limit around it ends a [durable](crate::recorder) request, unless the step fails. A cancel is
    /// answered as too late then, and the result says what became true. The beginning is stored before the body
    /// runs, which takes a flush of its own. In other requests it does nothing.
    ///
    /// A limit of the step itself still cuts its body, and a later step that fails still undoes those before it.
    pub fn commits(mut self) -> Self {
        self.last.facts.needs_body("commits");
        self.last.facts.commits = true;
        self
    }

    /// Says that the step begins a durable request of this function, for those who look at the plan.
    pub fn begins_child(mut self, function: &'static str, policy: ChildPolicy) -> Self {
        self.last.facts.child = Some((function, policy));
        self
    }

    /// Says that the step had this name in an earlier version of the function: a
    /// [durable](crate::recorder) request that began with that version finds it again. A step that had
    /// several names says so for each, the newest first. In other requests it does nothing.
    ///
    /// The step keeps its oldest name for the host and in its [key](super::Cx::key), so that nothing is carried out
    /// twice. A request that has something stored under a newer name keeps that. So this stays until the
    /// last request that began with it has ended, and no other step gets the old name meanwhile.
    pub fn was(mut self, name: &'static str) -> Self {
        self.last.facts.was.push(name);
        self
    }

    fn stored(mut self, word: &'static str, kind: Kind) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        self.last.facts.needs_body(word);
        self.of_kind(kind)
    }

    fn of_kind(mut self, kind: Kind) -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        self.last.said.result = Some(Codec::of_results());
        self.last.facts.kind = Some(kind);
        self.last.facts.read = Some(Read::of(Codec::<T>::of_results()));
        self
    }
}
