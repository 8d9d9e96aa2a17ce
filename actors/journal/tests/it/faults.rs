//! The faults of the journal in memory are those that were asked for.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use asyncsteps_journal::memory::{Fault, Memory, Operation, SeededFaults};
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{FirstOwner, Query, Submit, Submitted};
use asyncsteps_journal::{Error, Journal, Repeat, Uid, Value};

/// Polls until it is done; `None` if it waits for nothing.
fn run<T>(future: impl Future<Output = T>) -> (Option<T>, u32) {
    let mut future = pin!(future);
    for turns in 0..100 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return (Some(value), turns);
        }
    }
    (None, 100)
}

fn submit() -> Submit {
    let started = Started {
        template: "t".to_owned(),
        version: 1,
        parameters: Value::encode(&()).expect("a value"),
        user: None,
        deadline: None,
        trace: None,
        schedule: None,
        is_asked_for: false,
        parent: None,
    };
    let uid = Uid::random().expect("random bytes");
    Submit::new(uid, started, FirstOwner::Any)
}

fn count(journal: &Memory) -> usize {
    let query = Query { limit: 100, ..Query::default() };
    run(journal.list(query)).0.expect("it is answered").expect("the list").len()
}

#[test]
fn each_fault_does_or_does_not_do_the_operation() {
    let journal = Memory::default();
    let with = |fault: Fault| journal.clone().faults(move |_: Operation| fault);
    let (error, _) = run(with(Fault::NotDone).submit(submit()));
    assert_eq!(error.unwrap().unwrap_err().repeat(), Repeat::Later);
    assert_eq!(count(&journal), 0);

    let lost = submit();
    let (error, _) = run(with(Fault::AnswerLost).submit(lost.clone()));
    assert_eq!(error.unwrap().unwrap_err().repeat(), Repeat::UntilAnswered);
    let (again, _) = run(journal.submit(lost.clone()));
    assert_eq!(again.unwrap().unwrap(), Submitted::Known(lost.uid));

    let (delayed, turns) = run(with(Fault::Delayed(3)).submit(submit()));
    assert_eq!((delayed.unwrap().unwrap(), turns), (Submitted::New, 3));
    let (crashed, _) = run(with(Fault::NeverAnswered).submit(submit()));
    assert!(crashed.is_none());
    assert_eq!(count(&journal), 3);
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let outcomes = |seed| {
        let journal = Memory::default().faults(SeededFaults::new(seed, 4, 2));
        (0..60)
            .map(|_| match run(journal.submit(submit())) {
                (Some(Ok(_)), turns) => format!("done {turns}"),
                (Some(Err(Error::AnswerLost(_))), _) => "lost".to_owned(),
                (Some(Err(error)), _) => error.to_string(),
                (None, _) => panic!("it is answered"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(7), outcomes(7));
    assert_ne!(outcomes(7), outcomes(8));
    for expected in ["done 0", "done 2", "lost", "the journal cannot be reached"] {
        assert!(outcomes(7).iter().any(|outcome| outcome == expected), "{expected}");
    }
}
