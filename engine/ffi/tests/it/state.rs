//! State variables of both sides (FTN12 §2.2.1 `state`, §2.7.2 `stateVariable`): foreign code sees
//! those of Rust, and Rust those of foreign code.
#![expect(unsafe_code, reason = "the tests stand in for foreign code")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_void};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{ptr, slice, thread};

use asyncsteps_core::{Flow, SharedState, Template, run_to_end};
use asyncsteps_ffi::abi::{FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInBinaryValue, flags};
use asyncsteps_ffi::exports::{
    asyncsteps_loop_free, asyncsteps_loop_new, asyncsteps_loop_run, host,
};
use asyncsteps_ffi::{Binary, Value, Variable, into_root};

type Bsi = *mut FutoInAsyncSteps;

fn api(bsi: Bsi) -> FutoInAsyncStepsAPI {
    // SAFETY: handles stay readable
    let api = unsafe { (*bsi).api };
    // SAFETY: as above
    unsafe { *api }
}

/// What foreign code sees under a name.
fn look_up(bsi: Bsi, name: &str) -> *mut c_void {
    let name = CString::new(name).expect("no NUL in it");
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(bsi).state_variable)(bsi, ptr::null_mut(), name.as_ptr(), None, None) }
}

/// The same for a variable of Rust: its flags and the value.
fn value(bsi: Bsi, name: &str) -> Option<FutoInBinaryValue> {
    // SAFETY: it is null or a value
    unsafe { look_up(bsi, name).cast::<FutoInBinaryValue>().as_ref() }.copied()
}

fn flags_of(value: &FutoInBinaryValue) -> u8 {
    // SAFETY: the type of a value outlives it
    unsafe { value.kind.as_ref() }.map_or(0, |kind| kind.flags)
}

/// Makes a variable as foreign code does, which is the counter at `data`; its cleanup counts.
fn make(bsi: Bsi, name: &CStr, counter: &AtomicU32) -> *mut c_void {
    unsafe extern "C" fn allocate(data: *mut c_void) -> *mut c_void {
        data
    }
    unsafe extern "C" fn cleanup(_: *mut c_void, value: *mut c_void) {
        // SAFETY: `allocate` gave the counter
        unsafe { &*value.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
    }
    let data = ptr::from_ref(counter).cast_mut().cast();
    // SAFETY: FTN12 §2.7.2; the counter outlives the flow
    unsafe { (api(bsi).state_variable)(bsi, data, name.as_ptr(), Some(allocate), Some(cleanup)) }
}

/// Carries a handle to where FTN12 lets it be used.
#[derive(Clone, Copy)]
struct Anywhere(Bsi);

// SAFETY: what other threads do with it FTN12 allows there
unsafe impl Send for Anywhere {}

impl Anywhere {
    fn get(self) -> Bsi {
        self.0
    }
}

#[test]
fn foreign_code_sees_variables_of_rust_as_values() {
    let mut flow = Flow::new();
    let object = Rc::new(RefCell::new(1));
    let state = flow.state_mut();
    state.set("number", 7u16);
    state.set("text", "a text");
    state.set("list", vec![1.5f64, 2.5]);
    state.set("object", Rc::clone(&object));
    flow.add(|asi, ()| {
        asi.binary(|bsi| {
            let number = value(bsi, "number").expect("it is set");
            assert_eq!(flags_of(&number), flags::UINT16);
            assert_eq!(u16::from_ne_bytes(number.data.bytes()), 7);
            let text = value(bsi, "text").expect("it is set");
            assert_eq!((flags_of(&text), text.length), (flags::STRING, 6));
            // SAFETY: a string ends with NUL
            assert_eq!(unsafe { CStr::from_ptr(text.data.pointer()) }, c"a text");
            let list = value(bsi, "list").expect("it is set");
            assert_eq!(flags_of(&list), flags::ARRAY | flags::DOUBLE);
            // SAFETY: an array has `length` elements
            let list: &[f64] =
                unsafe { slice::from_raw_parts(list.data.pointer(), list.length as usize) };
            assert_eq!(list, [1.5, 2.5]);
            let object = value(bsi, "object").expect("it is set");
            assert_eq!(flags_of(&object), flags::CUSTOM_OBJECT);
            // SAFETY: its address
            let object = unsafe { &*object.data.pointer::<Rc<RefCell<i32>>>() };
            object.replace(2);
            assert!(value(bsi, "missing").is_none());
        });
        // a later look-up sees what has changed
        let before = asi.binary(|bsi| look_up(bsi, "number"));
        asi.state_mut().set("number", -1i64);
        asi.binary(|bsi| {
            assert_eq!(look_up(bsi, "number"), before);
            let number = value(bsi, "number").expect("it is set");
            assert_eq!(i64::from_ne_bytes(number.data.bytes()), -1);
        });
    });
    run_to_end::<()>(flow).expect("nothing fails");
    assert_eq!((object.take(), Rc::strong_count(&object)), (2, 1));
}

#[test]
fn foreign_code_sees_the_variables_of_a_template_and_values_as_they_are() {
    let template = Template::build(|asi| {
        asi.state().set("model", 3i32);
        asi.add(|asi, ()| {
            // SAFETY: no value has nothing to release
            asi.state_mut().set("value", unsafe { Value::from_raw(FutoInBinaryValue::NONE) });
            let value_at =
                asi.state().get::<Value>("value").map(|value| ptr::from_ref(value.as_raw()));
            asi.binary(|bsi| {
                let model = value(bsi, "model").expect("it is set");
                assert_eq!(i32::from_ne_bytes(model.data.bytes()), 3);
                assert_eq!(Some(look_up(bsi, "value").cast_const().cast()), value_at);
            });
        });
    });
    run_to_end::<()>(template.flow()).expect("nothing fails");
}

#[test]
fn rust_sees_variables_of_foreign_code() {
    let counter = AtomicU32::new(5);
    let mut flow = Flow::new();
    let at = flow.binary(|bsi| make(bsi, c"counter", &counter));
    assert_eq!(flow.state().get::<Variable>("counter").map(Variable::as_ptr), Some(at));
    flow.add(move |asi, ()| {
        assert!(asi.state().exists("counter") && !asi.state_mut().remove("counter"));
        let variable = asi.state().get::<Variable>("counter").expect("it was made");
        // SAFETY: it points to the counter
        unsafe { &*variable.as_ptr().cast::<AtomicU32>() }.fetch_add(10, Ordering::Relaxed);
        // one of the same name hides it from Rust only
        asi.state_mut().set("counter", "mine");
        assert_eq!(asi.state().get::<&str>("counter"), Some(&"mine"));
        asi.binary(|bsi| assert_eq!(look_up(bsi, "counter"), at));
    });
    run_to_end::<()>(flow).expect("nothing fails");
    assert_eq!(counter.into_inner(), 16, "its cleanup was called once");
}

#[test]
fn other_threads_see_what_rust_shares_and_nothing_else() {
    let event_loop = asyncsteps_loop_new(1);
    let counter = AtomicU32::new(0);
    let mut flow = Flow::new();
    flow.state_mut().set("own", 1u8);
    let shared: SharedState = flow.state_mut().shared().clone();
    shared.add("shared", 2u8).expect("it is new");
    flow.add(|asi, ()| {
        asi.sleep(std::time::Duration::ZERO);
    });
    let root = Anywhere(into_root(flow, host(event_loop).expect("the loop exists")));
    thread::scope(|scope| {
        let counter = &counter;
        scope.spawn(move || {
            assert!(value(root.get(), "own").is_none());
            let number = value(root.get(), "shared").expect("it is shared");
            assert_eq!((flags_of(&number), number.data.bytes()), (flags::UINT8, [2]));
            assert_eq!(look_up(root.get(), "shared"), look_up(root.get(), "shared"));
            make(root.get(), c"made", counter);
            make(root.get(), c"shared", counter);
        });
    });
    // this is the thread of the flow
    assert!(value(root.get(), "own").is_some());
    assert_eq!(look_up(root.get(), "made"), ptr::from_ref(&counter).cast_mut().cast());
    assert!(shared.get::<Variable>("made").is_some());
    assert_eq!(shared.get::<u8>("shared"), Some(&2), "each side has its own");
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root.get()).execute)(root.get(), ptr::null_mut(), None) };
    assert_eq!(asyncsteps_loop_run(event_loop), 0);
    assert!(value(root.get(), "own").is_none(), "it went with the flow");
    drop(shared);
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    // SAFETY: FTN12 §2.7.2
    unsafe { (api(root.get()).free)(root.get()) };
    assert_eq!(asyncsteps_loop_free(event_loop), 0);
    assert_eq!(counter.into_inner(), 2);
}
