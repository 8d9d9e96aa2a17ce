//! What all handles of one flow share: its event loop, state variables, and memory.
#![expect(unsafe_code, reason = "memory and destructors from outside")]

use std::alloc::{self, Layout};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::{CStr, CString, c_void};
use std::fmt::Write as _;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{AsyncSteps, Error};

use crate::abi::{Allocate, CleanupMemory, CleanupVariable};
use crate::guard::{Misuse, c_text};
use crate::host::{self, Host};
use crate::steps::Attached;

/// One per flow.
#[derive(Default)]
pub(crate) struct Context {
    /// Set when it is first needed.
    host: OnceCell<Arc<dyn Host>>,
    variables: RefCell<BTreeMap<CString, Variable>>,
    /// What lives as long as the root.
    pub(crate) memory: RefCell<Memory>,
    /// What `error_info` and `last_exception` gave last.
    texts: RefCell<[CString; 2]>,
    /// The error that ended the flow.
    last_error: RefCell<Option<Error>>,
    /// The flow is cancelled or freed: its turn ends with the running callback.
    pub(crate) is_ended: Cell<bool>,
    /// The handle for the next callback.
    pub(crate) spare: Cell<Option<Attached>>,
}

struct Variable {
    value: *mut c_void,
    data: *mut c_void,
    cleanup: Option<CleanupVariable>,
}

impl Drop for Variable {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup {
            // SAFETY: FTN12 §2.7.2 wants it called with what `allocate` gave, once
            unsafe { cleanup(self.data, self.value) };
        }
    }
}

/// Blocks made with `stack`; the newest goes first.
#[derive(Default)]
pub(crate) struct Memory(Vec<Block>);

struct Block {
    at: NonNull<u8>,
    layout: Layout,
    cleanup: Option<CleanupMemory>,
}

impl Memory {
    /// Makes a block for so many bytes; null if there is no memory.
    pub(crate) fn add(&mut self, size: usize, cleanup: Option<CleanupMemory>) -> *mut c_void {
        let Ok(layout) = Layout::from_size_align(size.max(1), 16) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the size is not 0
        let at = unsafe { alloc::alloc_zeroed(layout) };
        if let Some(at) = NonNull::new(at) {
            self.0.push(Block { at, layout, cleanup });
        }
        at.cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        while let Some(block) = self.0.pop() {
            drop(block);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup {
            // SAFETY: FTN12 §2.7.2 wants it called with the block, once
            unsafe { cleanup(self.at.as_ptr().cast()) };
        }
        // SAFETY: allocated with this layout, and nobody else frees it
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// The special state variables (FTN12 §1.7).
#[derive(Clone, Copy)]
enum Special {
    ErrorInfo,
    LastException,
}

impl Special {
    fn named(name: &CStr) -> Option<Self> {
        match name.to_bytes() {
            b"error_info" => Some(Self::ErrorInfo),
            b"last_exception" => Some(Self::LastException),
            _ => None,
        }
    }
}

impl Context {
    /// What a variable is where there is no flow: special ones are never null.
    pub(crate) fn missing(name: &CStr) -> *mut c_void {
        let empty = || c"".as_ptr().cast_mut().cast();
        Special::named(name).map_or(std::ptr::null_mut(), |_| empty())
    }

    /// The context of a flow, made when it is first asked for.
    pub(crate) fn of(asi: &mut AsyncSteps) -> Rc<Self> {
        if let Some(context) = asi.extension::<Rc<Self>>() {
            return Rc::clone(context);
        }
        let host = asi.extension::<Arc<dyn Host>>().cloned().map(OnceCell::from);
        let context = Rc::new(Self { host: host.unwrap_or_default(), ..Self::default() });
        asi.extend(Rc::clone(&context));
        context
    }

    pub(crate) fn host(&self) -> Result<&Arc<dyn Host>, Misuse> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let none = Misuse::Rule("the host of the flow gives no event loop");
        let found = host::of_thread().ok_or(none)?;
        Ok(self.host.get_or_init(|| found))
    }

    /// Says where the flow will run, unless that was asked before.
    pub(crate) fn settle(&self, host: &Arc<dyn Host>) {
        self.host.get_or_init(|| Arc::clone(host));
    }

    pub(crate) fn fail(&self, error: &Error) {
        self.last_error.replace(Some(error.clone()));
    }

    /// A state variable, made if it is missing; null if it is missing and cannot be made.
    pub(crate) fn variable(
        &self,
        name: &CStr,
        data: *mut c_void,
        make: (Option<Allocate>, Option<CleanupVariable>),
    ) -> *mut c_void {
        if let Some(variable) = self.variables.borrow().get(name) {
            return variable.value;
        }
        let Some(allocate) = make.0 else { return std::ptr::null_mut() };
        // SAFETY: FTN12 §2.7.2 wants it called with `data`; nothing is borrowed meanwhile
        let value = unsafe { allocate(data) };
        let new = Variable { value, data, cleanup: make.1 };
        let mut variables = self.variables.borrow_mut();
        if let Some(made) = variables.get(name) {
            // `allocate` made it under the same name itself
            let kept = made.value;
            drop(variables);
            drop(new);
            return kept;
        }
        variables.insert(name.to_owned(), new);
        value
    }

    /// A special state variable as text; `None` for other names.
    pub(crate) fn special(&self, asi: Option<&AsyncSteps>, name: &CStr) -> Option<*mut c_void> {
        let which = Special::named(name)?;
        let last = self.last_error.borrow();
        let error = asi.and_then(AsyncSteps::last_exception).or(last.as_ref());
        let text = match (which, error) {
            (_, None) => String::new(),
            (Special::ErrorInfo, Some(error)) => {
                text_of(error, error.info().unwrap_or_default().to_owned())
            }
            (Special::LastException, Some(error)) => text_of(error, with_sources(error)),
        };
        let text = c_text(&text);
        let kept = &mut self.texts.borrow_mut()[which as usize];
        // what did not change stays where it is
        if *kept != text {
            *kept = text;
        }
        Some(kept.as_ptr().cast_mut().cast())
    }
}

/// What an error says, without the place of a step that was added by these sources for another
/// technology: it tells nobody there anything.
pub(crate) fn text_of(error: &Error, mut text: String) -> String {
    let folder = file!().strip_suffix("context.rs");
    let place = error.place().filter(|place| folder.is_some_and(|f| place.file().starts_with(f)));
    let place = place.map(|place| format!(", in the step {place}"));
    if let Some(rule) = place.and_then(|place| text.strip_suffix(&place).map(str::len)) {
        text.truncate(rule);
    }
    text
}

fn with_sources(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        // writing to a string cannot fail
        let _ = write!(text, ": {source}");
        next = source.source();
    }
    text
}
