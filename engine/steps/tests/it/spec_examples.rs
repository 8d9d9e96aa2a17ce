//! The worked examples of FTN12, with the output that the specification prints.

use std::cell::RefCell;
use std::error::Error as _;
use std::fmt::Display;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use asyncsteps_core::sync::{Mutex, mutex};
use asyncsteps_core::{
    AsyncSteps, Completion, ErrorExt, Execution, Flow, Outcome, Progress, Template, Time, codes,
};

/// The lines that the examples print.
#[derive(Clone, Default)]
struct Output(Rc<RefCell<Vec<String>>>);

impl Output {
    fn print(&self, line: impl Display) {
        self.0.borrow_mut().push(line.to_string());
    }

    fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

fn drive(execution: &mut Execution, now: Duration) -> Progress {
    loop {
        let progress = execution.run(Time::from_epoch(now), Waker::noop());
        if !matches!(progress, Progress::Ready) {
            return progress;
        }
    }
}

/// Runs a flow that never waits, and gives the code of the error that ended it.
fn finish(flow: Flow) -> Result<(), String> {
    let Progress::Done(outcome) = drive(&mut flow.execute(), Duration::ZERO) else {
        panic!("the flow waits")
    };
    outcome.into_result().map_err(|error| error.code().to_owned())
}

#[test]
fn levels_run_in_the_order_of_section_1_1() {
    let out = Output::default();
    let mut flow = Flow::new();
    let print = |line: &'static str| {
        let out = out.clone();
        move |_: &mut AsyncSteps, ()| out.print(line)
    };
    let outer = out.clone();
    let (l2_1, l2_2, l2_3) =
        (print("Level 2 add #1"), print("Level 2 parallel #2"), print("Level 2 add #3"));
    let (l1_2, l1_3) = (print("Level 1 parallel #2"), print("Level 1 add #3"));
    let inner = out.clone();
    flow.add(move |asi, ()| {
        outer.print("Level 0 add #1");
        asi.add(move |asi, ()| {
            inner.print("Level 1 add #1");
            asi.add(l2_1);
            asi.parallel(|p| {
                p.add(l2_2);
            });
            asi.add(l2_3);
        });
        asi.parallel(|p| {
            p.add(l1_2);
        });
        asi.add(l1_3);
    });
    let (l0_2, l0_3) = (print("Level 0 parallel #2"), print("Level 0 add #3"));
    flow.parallel(|p| {
        p.add(l0_2);
    });
    flow.add(l0_3);
    finish(flow).expect("nothing fails");
    assert_eq!(
        out.lines(),
        [
            "Level 0 add #1",
            "Level 1 add #1",
            "Level 2 add #1",
            "Level 2 parallel #2",
            "Level 2 add #3",
            "Level 1 parallel #2",
            "Level 1 add #3",
            "Level 0 parallel #2",
            "Level 0 add #3",
        ]
    );
}

#[test]
fn errors_are_handled_as_in_section_1_2() {
    let out = Output::default();
    let mut flow = Flow::new();
    let (a, b, c, d, e) = (out.clone(), out.clone(), out.clone(), out.clone(), out.clone());
    flow.add(move |asi, ()| {
        a.print("Level 0 func");
        asi.add(move |asi, ()| {
            b.print("Level 1 func");
            asi.error("myerror", ())
        })
        .on_error(move |asi, error| {
            c.print(format!("Level 1 onerror: {}", error.code()));
            asi.error("newerror", ())
        });
    })
    .on_error(move |asi, error| {
        d.print(format!("Level 0 onerror: {}", error.code()));
        asi.success("Prm")
    });
    flow.add(move |asi, param: String| {
        e.print(format!("Level 0 func2: {param}"));
        asi.success(())
    });
    finish(flow).expect("recovered");
    assert_eq!(
        out.lines(),
        [
            "Level 0 func",
            "Level 1 func",
            "Level 1 onerror: myerror",
            "Level 0 onerror: newerror",
            "Level 0 func2: Prm",
        ]
    );
}

#[test]
fn steps_in_an_error_handler_stay_on_its_level_as_in_section_1_2_1() {
    let out = Output::default();
    let mut flow = Flow::new();
    let (a, b, c, d, e, f) =
        (out.clone(), out.clone(), out.clone(), out.clone(), out.clone(), out.clone());
    flow.add(move |asi, ()| {
        a.print("Level 0 func");
        asi.add(move |asi, ()| {
            b.print("Level 1 func");
            asi.error("first", ())
        })
        .on_error(move |asi, error| {
            c.print(format!("Level 1 onerror: {}", error.code()));
            asi.add(move |asi, ()| {
                d.print("Level 2 func");
                asi.error("second", ())
            })
            .on_error(move |_, error| e.print(format!("Level 2 onerror: {}", error.code())));
        });
    })
    .on_error(move |_, error| f.print(format!("Level 0 onerror: {}", error.code())));
    assert_eq!(finish(flow), Err("second".to_owned()));
    assert_eq!(
        out.lines(),
        [
            "Level 0 func",
            "Level 1 func",
            "Level 1 onerror: first",
            "Level 2 func",
            "Level 2 onerror: second",
            "Level 0 onerror: second",
        ]
    );
}

/// The socket of section 1.3: it answers when the test makes it answer.
#[derive(Clone, Default)]
struct Socket(Rc<RefCell<Option<Completion>>>);

fn reader(socket: &Socket, out: &Output) -> Flow {
    let mut flow = Flow::new();
    let (reader, cancelled) = (socket.clone(), socket.clone());
    let (on_error, read) = (out.clone(), out.clone());
    flow.add(move |asi, ()| {
        *reader.0.borrow_mut() = Some(asi.completion());
        asi.set_cancel(move |_| {
            cancelled.0.borrow_mut().take();
        });
        asi.set_timeout(Duration::from_secs(30));
    })
    .on_error(move |_, error| {
        on_error.print(if error.code() == codes::TIMEOUT { "Timeout" } else { "Read Error" });
    });
    flow.add(move |_, data: String| read.print(data));
    flow
}

#[test]
fn a_read_ends_with_data_timeout_or_error_as_in_section_1_3() {
    let (socket, out) = (Socket::default(), Output::default());
    let mut execution = reader(&socket, &out).execute();
    assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Waiting));
    let read = socket.0.borrow().clone().expect("the step waits");
    read.success("data".to_owned()).expect("in time");
    assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Done(Outcome::Success(_))));

    let mut execution = reader(&socket, &out).execute();
    assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Waiting));
    assert_eq!(execution.deadline(), Some(Time::from_epoch(Duration::from_secs(30))));
    let late = drive(&mut execution, Duration::from_secs(30));
    assert!(matches!(late, Progress::Done(Outcome::Error(_))));
    assert!(socket.0.borrow().is_none(), "the read was cancelled");

    let mut execution = reader(&socket, &out).execute();
    assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Waiting));
    let read = socket.0.borrow().clone().expect("the step waits");
    read.error("Broken", "pipe").expect("in time");
    assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Done(Outcome::Error(_))));
    assert_eq!(read.success(()), Err(asyncsteps_core::Stale));
    assert_eq!(out.lines(), ["data", "Timeout", "Read Error"]);
}

#[test]
fn a_failing_branch_cancels_the_others_as_in_section_1_4() {
    let out = Output::default();
    let mut flow = Flow::new();
    let (one, two, three) = (out.clone(), out.clone(), out.clone());
    flow.parallel(|p| {
        p.add(move |asi, ()| asi.set_cancel(move |_| one.print("cancel #1")));
        p.add(move |asi, ()| asi.set_cancel(move |_| two.print("cancel #2")));
        p.add(|asi, ()| asi.error("Some Error", ()));
    });
    flow.add(move |_, ()| three.print("never"));
    assert_eq!(finish(flow), Err("Some Error".to_owned()));
    assert_eq!(out.lines(), ["cancel #1", "cancel #2"]);
}

#[test]
fn a_template_is_copied_with_business_logic_in_its_state_as_in_section_1_5() {
    let logic = Template::build(|asi| {
        asi.add(|asi, ()| asi.success(20));
        asi.add(|asi, n: i32| asi.success(n + 1));
    });
    let common = Template::build(|asi| {
        asi.add(|asi, ()| {
            asi.add(|_, ()| {});
            let logic = asi.state().get::<Template>("business_logic").cloned();
            asi.copy_from(&logic.ok_or("no business logic").code("NotConfigured")?);
            asi.add(|asi, n: i32| asi.success(n * 2));
            Ok(())
        });
    });
    let mut flow = common.flow();
    flow.state_mut().set("business_logic", logic);
    assert_eq!(asyncsteps_core::run_to_end::<i32>(flow).expect("it has its logic"), 42);
    let error = asyncsteps_core::run_to_end::<i32>(common.flow()).expect_err("it has none");
    assert_eq!((error.code(), error.info()), ("NotConfigured", None));
    assert_eq!(error.source().map(ToString::to_string), Some("no business logic".to_owned()));
}

#[test]
fn loops_break_and_continue_as_in_section_1_8() {
    let out = Output::default();
    let mut flow = Flow::new();
    let (inner, item) = (out.clone(), out.clone());
    flow.add(move |asi, ()| {
        asi.state_mut().set("results", vec![false, true, true]);
        asi.make_loop(move |asi| {
            let inner = inner.clone();
            asi.make_loop(move |asi| {
                // a library that gives a result in a step
                asi.add(|asi, ()| {
                    let next = asi.state_mut().get_mut::<Vec<bool>>("results").and_then(Vec::pop);
                    asi.success(next)
                });
                let inner = inner.clone();
                asi.add(move |asi, result: Option<bool>| {
                    inner.print(format!("{result:?}"));
                    match result {
                        Some(true) => asi.break_loop(None),
                        Some(false) => asi.continue_loop("OUTER"),
                        None => asi.break_loop("OUTER"),
                    }
                });
            });
        })
        .label("OUTER");
        let count = item.clone();
        asi.repeat(3, move |_, i| count.print(format!("Iteration: {i}")));
        asi.for_each(["apple", "banana"], move |_, k, v| item.print(format!("{k} = {v}")));
    });
    finish(flow).expect("loops end");
    assert_eq!(
        out.lines(),
        [
            "Some(true)",
            "Some(true)",
            "Some(false)",
            "None",
            "Iteration: 0",
            "Iteration: 1",
            "Iteration: 2",
            "0 = apple",
            "1 = banana",
        ]
    );
}

#[test]
fn single_level_steps_pass_results_as_in_section_3_1() {
    for something in [true, false] {
        let out = Output::default();
        let mut flow = Flow::new();
        let (failed, done) = (out.clone(), out.clone());
        flow.add(move |asi, ()| {
            if something { asi.success((1, 2)) } else { asi.error(codes::NOT_IMPLEMENTED, ()) }
        })
        .on_error(move |_, error| failed.print(error));
        flow.add(move |_, (one, two): (i32, i32)| done.print(format!("{one} {two}")));
        assert_eq!(finish(flow).is_ok(), something);
        assert_eq!(out.lines(), [if something { "1 2" } else { "NotImplemented" }]);
    }
}

#[test]
fn sub_steps_pass_results_and_errors_outwards_as_in_section_3_2() {
    for something in [true, false] {
        let out = Output::default();
        let mut flow = Flow::new();
        let (log, failed, done) = (out.clone(), out.clone(), out.clone());
        flow.add(move |asi, ()| {
            asi.add(
                move |asi, ()| {
                    if something { asi.success(1) } else { asi.error(codes::NOT_IMPLEMENTED, ()) }
                },
            )
            .on_error(move |_, error| log.print(format!("Spotted error {error}")));
            asi.add(|asi, one: i32| asi.success((one, 2)));
        })
        .on_error(move |_, error| failed.print(error));
        flow.add(move |_, (one, two): (i32, i32)| done.print(format!("{one} {two}")));
        assert_eq!(finish(flow).is_ok(), something);
        let expected: &[&str] =
            if something { &["1 2"] } else { &["Spotted error NotImplemented", "NotImplemented"] };
        assert_eq!(out.lines(), expected);
    }
}

#[test]
fn parallel_steps_pass_results_by_state_as_in_section_3_3() {
    let out = Output::default();
    let mut flow = Flow::new();
    let done = out.clone();
    flow.add(|asi, ()| {
        asi.parallel(|p| {
            p.add(|asi, ()| asi.state_mut().set("parallel_1", 1));
            p.add(|asi, ()| asi.error("MyError", ())).on_error(|asi, _| {
                asi.state_mut().set("parallel_2", 0);
                asi.success(())
            });
        });
    });
    flow.add(move |asi, ()| {
        let get = |name| asi.state().get::<i32>(name).copied();
        done.print(format!("{:?} {:?}", get("parallel_1"), get("parallel_2")));
    });
    finish(flow).expect("the error is ignored");
    assert_eq!(out.lines(), ["Some(1) Some(0)"]);
}

#[test]
fn loops_go_over_counts_lists_and_the_state_as_in_section_3_4() {
    let out = Output::default();
    let mut flow = Flow::new();
    flow.state_mut().set("a", 1);
    flow.state_mut().set("b", 2);
    let (count, list, map) = (out.clone(), out.clone(), out.clone());
    flow.add(move |asi, ()| {
        asi.repeat(3, move |_, i| count.print(i));
        asi.for_each(vec![1, 3, 3], move |_, k, v| list.print(format!("{k}={v}")));
        let names: Vec<String> = asi.state().names().map(str::to_owned).collect();
        asi.for_each(names, move |asi, _, name| {
            map.print(format!("{name}={:?}", asi.state().get::<i32>(&name)));
        });
    });
    finish(flow).expect("nothing fails");
    assert_eq!(out.lines(), ["0", "1", "2", "0=1", "1=3", "2=3", "a=Some(1)", "b=Some(2)"]);
}

#[test]
fn an_external_event_completes_the_step_as_in_section_3_5() {
    for (fails, expected) in [(true, Some("Failed")), (false, None)] {
        let external = Socket::default();
        let waiting = external.clone();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            *waiting.0.borrow_mut() = Some(asi.wait_external());
        });
        let mut execution = flow.execute();
        assert!(matches!(drive(&mut execution, Duration::ZERO), Progress::Waiting));
        let done = external.0.borrow_mut().take().expect("the step waits");
        std::thread::spawn(move || if fails { done.error("Failed", ()) } else { done.success(()) })
            .join()
            .expect("no panic")
            .expect("the step still waits");
        let Progress::Done(outcome) = drive(&mut execution, Duration::ZERO) else {
            panic!("the flow still waits")
        };
        let result = outcome.into_result::<()>();
        assert_eq!(result.err().map(|error| error.code().to_owned()).as_deref(), expected);
    }
}

#[test]
fn a_mutex_of_ten_lets_ten_in_as_in_section_3_6() {
    let mutex = Mutex::new(mutex::Options { max: 10, max_queue: None });
    let inside = Rc::new(RefCell::new(Vec::new()));
    let mut flows: Vec<Execution> = (0..12)
        .map(|_| {
            let inside = Rc::clone(&inside);
            let mut flow = Flow::new();
            flow.sync(&mutex, move |asi, ()| inside.borrow_mut().push(asi.wait_external()));
            flow.execute()
        })
        .collect();
    for flow in &mut flows {
        assert!(matches!(drive(flow, Duration::ZERO), Progress::Waiting));
    }
    assert_eq!((inside.borrow().len(), mutex.holders(), mutex.queued()), (10, 10, 2));
    let first = inside.borrow_mut().remove(0);
    first.success(()).expect("the section waits");
    let done = drive(&mut flows[0], Duration::ZERO);
    assert!(matches!(done, Progress::Done(Outcome::Success(_))));
    assert!(matches!(drive(&mut flows[10], Duration::ZERO), Progress::Waiting));
    assert_eq!((inside.borrow().len(), mutex.holders(), mutex.queued()), (10, 10, 1));
    drop(flows);
    assert_eq!((mutex.holders(), mutex.queued()), (0, 0));
}
