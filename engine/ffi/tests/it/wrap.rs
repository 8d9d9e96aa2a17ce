//! Steps in Rust on another implementation, which is a table in C (FTN12 §2.2.1 `wrap`).
#![expect(unsafe_code, reason = "the other implementation is loaded and called")]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{AsyncSteps, Completion, Error, Flow, StepResult};
use asyncsteps_ffi::abi::{FutoInAsyncSteps, FutoInAsyncStepsAPI};
use asyncsteps_ffi::exports::{
    AsyncStepsLoop, asyncsteps_last_error, asyncsteps_loop_free, asyncsteps_loop_iterate,
    asyncsteps_loop_new, asyncsteps_loop_run, asyncsteps_root_new,
};
use asyncsteps_ffi::wrap;

type Bsi = *mut FutoInAsyncSteps;
type MakeRoot = unsafe extern "C" fn(Bsi) -> Bsi;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// Builds and loads the other implementation.
fn make_root() -> MakeRoot {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = format!("foreign-{}-{:?}.so", std::process::id(), std::thread::current().id());
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-I"])
        .arg(package.join("include"))
        .arg(package.join("tests/foreign/engine.c"))
        .arg("-o")
        .arg(&library)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let file = CString::new(library.as_os_str().as_bytes()).expect("a path has no NUL");
    // SAFETY: the library has no code that runs when it is loaded
    let library = unsafe { dlopen(file.as_ptr(), RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: the library is loaded
    let symbol = unsafe { dlsym(library, c"foreign_root".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: that is its type
    unsafe { std::mem::transmute::<*mut c_void, MakeRoot>(symbol) }
}

/// What happened, in order.
type Notes = Rc<RefCell<Vec<String>>>;

/// A flow of the other implementation.
struct Foreign {
    event_loop: *mut AsyncStepsLoop,
    root: Bsi,
    notes: Notes,
}

impl Foreign {
    fn new() -> Self {
        let event_loop = asyncsteps_loop_new(2);
        // SAFETY: a root that was just made
        let root = unsafe { make_root()(asyncsteps_root_new(event_loop)) };
        Self { event_loop, root, notes: Notes::default() }
    }

    fn api(&self) -> FutoInAsyncStepsAPI {
        // SAFETY: the root lives as long as this
        let api = unsafe { (*self.root).api };
        // SAFETY: as above
        unsafe { *api }
    }

    /// Adds a step in Rust.
    fn add<A: asyncsteps_core::Arguments, R: asyncsteps_core::StepReturn>(
        &self,
        body: impl FnOnce(&mut AsyncSteps, A) -> R + 'static,
    ) {
        // SAFETY: the root was not executed yet
        unsafe { wrap(self.root, body) }.expect("it can be added to");
    }

    fn execute(&self) {
        unsafe extern "C" fn unhandled(_: Bsi, data: *mut c_void, code: *const c_char) {
            // SAFETY: the notes live longer than the loop; a code ends with NUL
            let notes = unsafe { &*data.cast::<RefCell<Vec<String>>>() };
            // SAFETY: as above
            let code = unsafe { CStr::from_ptr(code) };
            notes.borrow_mut().push(format!("unhandled {}", code.to_string_lossy()));
        }
        let data = Rc::as_ptr(&self.notes).cast_mut().cast();
        // SAFETY: the root was not executed yet
        unsafe { (self.api().execute)(self.root, data, Some(unhandled)) };
    }

    fn run(self) -> Vec<String> {
        self.execute();
        assert_eq!(asyncsteps_loop_run(self.event_loop), 0);
        // SAFETY: the root was not freed yet
        unsafe { (self.api().free)(self.root) };
        assert_eq!(asyncsteps_loop_free(self.event_loop), 0);
        self.notes.take()
    }
}

/// A library that knows nothing of foreign engines.
fn library(asi: &mut AsyncSteps, (number, text): (i32, String)) {
    let total = asi.stack(number);
    asi.repeat(3, move |asi, i| {
        asi.sleep(Duration::from_secs(60));
        asi.add(move |asi, ()| asi[total] += i32::try_from(i).unwrap_or(0));
    });
    asi.parallel(|p| {
        p.add(|asi, ()| asi.state_mut().set("branch", 1));
    });
    asi.add(move |asi, ()| {
        let total = asi[total] + asi.state().get("branch").copied().unwrap_or(0);
        asi.success((total, text, vec![1u8, 2], Rc::new("an object")))
    });
}

#[test]
fn a_library_runs_on_a_foreign_engine_unchanged() {
    let foreign = Foreign::new();
    foreign.add(|asi, ()| asi.success((38, "text")));
    foreign.add(library);
    let notes = Rc::clone(&foreign.notes);
    foreign.add(move |_, result: (i64, String, Vec<u8>, Rc<&str>)| {
        notes.borrow_mut().push(format!("{result:?}"));
    });
    assert_eq!(foreign.run(), [r#"(42, "text", [1, 2], "an object")"#]);
}

#[test]
fn errors_and_time_limits_come_out() {
    let foreign = Foreign::new();
    foreign.add(|asi, ()| asi.set_timeout(Duration::from_secs(3600)));
    assert_eq!(foreign.run(), ["unhandled Timeout"]);

    let foreign = Foreign::new();
    foreign.add(|asi, ()| {
        asi.add(|asi, ()| asi.error("First", ())).on_error(|asi, _| asi.error("MyError", "why"));
    });
    foreign.add(|_, ()| unreachable!("the flow has failed"));
    assert_eq!(foreign.run(), ["unhandled MyError"]);
}

#[test]
fn a_step_waits_for_other_threads() {
    let foreign = Foreign::new();
    let notes = Rc::clone(&foreign.notes);
    foreign.add(|asi, ()| {
        let completion: Completion = asi.wait_external();
        std::thread::spawn(move || completion.success("from a thread"));
    });
    foreign.add(move |_, text: String| notes.borrow_mut().push(text));
    assert_eq!(foreign.run(), ["from a thread"]);
}

#[test]
fn cancelling_runs_cancel_handlers_and_frees_locks() {
    let mutex = Mutex::default();
    let foreign = Foreign::new();
    let (notes, held) = (Rc::clone(&foreign.notes), mutex.clone());
    foreign.add(move |asi, ()| {
        asi.sync(&held, move |asi, ()| {
            asi.set_cancel(move |_| notes.borrow_mut().push("cancelled".to_owned()));
        });
    });
    foreign.execute();
    asyncsteps_loop_iterate(foreign.event_loop);
    assert_eq!(mutex.holders(), 1);
    // SAFETY: the root was not freed yet
    unsafe { (foreign.api().cancel)(foreign.root) };
    assert_eq!(asyncsteps_loop_run(foreign.event_loop), 0);
    assert_eq!((mutex.holders(), foreign.notes.take()), (0, vec!["cancelled".to_owned()]));
    // SAFETY: the root was not freed yet
    unsafe { (foreign.api().free)(foreign.root) };
    assert_eq!(asyncsteps_loop_free(foreign.event_loop), 0);
}

/// Ready after its second poll.
async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Charges, then goes on with `then`; the undo runs `undo`.
fn charge<U: Future<Output = ()> + 'static>(
    asi: &mut AsyncSteps,
    notes: &Notes,
    undo: fn() -> U,
    then: impl FnOnce(&mut AsyncSteps) -> StepResult + 'static,
) {
    let notes = Rc::clone(notes);
    asi.run(async |()| Ok(())).named("charge").undo(async move |_| {
        undo().await;
        notes.borrow_mut().push("refund".to_owned());
        Ok(())
    });
    asi.add(move |asi, ()| then(asi));
}

#[test]
fn a_step_is_undone_before_the_foreign_step_fails() {
    let foreign = Foreign::new();
    let notes = Rc::clone(&foreign.notes);
    foreign.add(move |asi, ()| charge(asi, &notes, yield_now, |asi| asi.error("LedgerDown", ())));
    assert_eq!(foreign.run(), ["refund", "unhandled LedgerDown"]);
}

#[test]
fn a_foreign_step_that_is_cancelled_is_undone_as_far_as_that_need_not_wait() {
    for waits in [false, true] {
        let foreign = Foreign::new();
        let notes = Rc::clone(&foreign.notes);
        let hangs = |asi: &mut AsyncSteps| {
            asi.wait_only();
            Ok(())
        };
        foreign.add(move |asi, ()| match waits {
            false => charge(asi, &notes, yield_now, hangs),
            true => charge(asi, &notes, std::future::pending::<()>, hangs),
        });
        foreign.execute();
        for _ in 0..3 {
            asyncsteps_loop_iterate(foreign.event_loop);
        }
        // SAFETY: the root was not freed yet
        unsafe { (foreign.api().cancel)(foreign.root) };
        assert_eq!(asyncsteps_loop_run(foreign.event_loop), 0);
        let refunds: &[&str] = if waits { &[] } else { &["refund"] };
        assert_eq!(foreign.notes.take(), refunds);
        if waits {
            // SAFETY: the text lives until the next call
            let text = unsafe { CStr::from_ptr(asyncsteps_last_error()) }.to_string_lossy();
            assert!(text.contains("the undo of the step `charge`"), "{text}");
        }
        // SAFETY: the root was not freed yet
        unsafe { (foreign.api().free)(foreign.root) };
        assert_eq!(asyncsteps_loop_free(foreign.event_loop), 0);
    }
}

#[test]
fn a_launched_flow_that_ends_with_its_foreign_step_is_undone() {
    for ending in ["success", "error", "cancel"] {
        let foreign = Foreign::new();
        let notes = Rc::clone(&foreign.notes);
        foreign.add(move |asi, ()| {
            let mut launched = Flow::new();
            let hangs = |asi: &mut AsyncSteps| {
                asi.wait_only();
                Ok(())
            };
            charge(launched.steps(), &notes, yield_now, hangs);
            asi.launch(launched);
            asi.await_(async {
                for _ in 0..3 {
                    yield_now().await;
                }
                Ok::<(), Error>(())
            });
            asi.add(move |asi, ()| match ending {
                "success" => asi.success(()),
                "error" => asi.error("LedgerDown", ()),
                _ => {
                    asi.wait_only();
                    Ok(())
                }
            });
        });
        let notes = Rc::clone(&foreign.notes);
        foreign.execute();
        if ending == "cancel" {
            for _ in 0..20 {
                asyncsteps_loop_iterate(foreign.event_loop);
            }
            // SAFETY: the root was not freed yet
            unsafe { (foreign.api().cancel)(foreign.root) };
        }
        assert_eq!(asyncsteps_loop_run(foreign.event_loop), 0);
        let expected: &[&str] = match ending {
            "error" => &["refund", "unhandled LedgerDown"],
            _ => &["refund"],
        };
        assert_eq!(notes.take(), expected, "{ending}");
        // SAFETY: the root was not freed yet
        unsafe { (foreign.api().free)(foreign.root) };
        assert_eq!(asyncsteps_loop_free(foreign.event_loop), 0);
    }
}

#[test]
fn the_undos_of_a_cancelled_step_run_beside_each_other() {
    let (foreign, second_began) = (Foreign::new(), Rc::new(Cell::new(false)));
    let notes = Rc::clone(&foreign.notes);
    foreign.add(move |asi, ()| {
        asi.parallel(move |p| {
            for waits in [true, false] {
                let (notes, began) = (Rc::clone(&notes), Rc::clone(&second_began));
                p.add(move |asi, ()| {
                    asi.run(async |()| Ok(())).undo(async move |_| {
                        began.set(began.get() || !waits);
                        while !began.get() {
                            yield_now().await;
                        }
                        notes.borrow_mut().push("refund".to_owned());
                        Ok(())
                    });
                    asi.add(|asi, ()| asi.wait_only());
                });
            }
        });
    });
    foreign.execute();
    for _ in 0..10 {
        asyncsteps_loop_iterate(foreign.event_loop);
    }
    // SAFETY: the root was not freed yet
    unsafe { (foreign.api().cancel)(foreign.root) };
    assert_eq!(asyncsteps_loop_run(foreign.event_loop), 0);
    assert_eq!(foreign.notes.take(), ["refund", "refund"]);
    // SAFETY: the root was not freed yet
    unsafe { (foreign.api().free)(foreign.root) };
    assert_eq!(asyncsteps_loop_free(foreign.event_loop), 0);
}

#[test]
fn a_step_that_never_starts_is_forgotten() {
    let foreign = Foreign::new();
    let held = Rc::new(());
    let captured = Rc::clone(&held);
    foreign.add(move |_, ()| drop(captured));
    // SAFETY: the root was not freed yet
    unsafe { (foreign.api().free)(foreign.root) };
    assert_eq!(Rc::strong_count(&held), 1);
    assert_eq!(asyncsteps_loop_free(foreign.event_loop), 0);
    // SAFETY: null is refused
    assert!(unsafe { wrap(ptr::null_mut(), |_: &mut AsyncSteps, ()| ()) }.is_err());
}
