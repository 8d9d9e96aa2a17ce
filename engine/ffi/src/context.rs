//! What all handles of one flow share: its event loop, state variables, and memory.
#![expect(unsafe_code, reason = "memory and destructors from outside")]

use std::alloc::{self, Layout};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps::{AsyncSteps, Error, Place, SharedState};

use crate::abi::CleanupMemory;
use crate::guard::{Misuse, c_text};
use crate::host::{self, Host};
use crate::steps::Attached;
use crate::value::Value;

/// One per flow.
#[derive(Default)]
pub(crate) struct Context {
    /// Set when it is first needed.
    host: OnceCell<Arc<dyn Host>>,
    /// The variables that all threads see. Set when foreign code first needs it, or other threads
    /// first may.
    shared: OnceCell<SharedState>,
    /// What variables of Rust were when foreign code last looked them up.
    seen: RefCell<BTreeMap<String, Box<Value>>>,
    /// What lives as long as the root.
    pub(crate) memory: RefCell<Memory>,
    /// What was given as each [`Text`] last.
    texts: RefCell<[CString; 3]>,
    /// The error that ended the flow.
    last_error: RefCell<Option<Error>>,
    /// The flow is cancelled or freed: its turn ends with the running callback.
    pub(crate) is_ended: Cell<bool>,
    /// The handle for the next callback.
    pub(crate) spare: Cell<Option<Attached>>,
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

/// What a flow says about itself (FTN12 §1.7).
#[derive(Clone, Copy)]
pub(crate) enum Text {
    ErrorInfo,
    LastException,
    Stack,
}

/// What `handle_error` was told: code and information.
pub(crate) type Told = (String, Option<String>);

impl Context {
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

    /// Has another flow of the same root use it.
    pub(crate) fn enter(self: &Rc<Self>, asi: &mut AsyncSteps) {
        if let Some(shared) = self.shared.get() {
            asi.state_mut().set_shared(shared.clone());
        }
        asi.extend(Rc::clone(self));
    }

    /// Another one with what outlives a flow of a root.
    pub(crate) fn detach(&self) -> Rc<Self> {
        Rc::new(Self {
            host: self.host.clone(),
            shared: self.shared.clone(),
            seen: self.seen.take().into(),
            memory: self.memory.take().into(),
            texts: self.texts.take().into(),
            last_error: self.last_error.take().into(),
            ..Self::default()
        })
    }

    pub(crate) fn fail(&self, error: &Error) {
        self.last_error.replace(Some(error.clone()));
    }

    /// The variables that all threads see, if there are any.
    pub(crate) fn shared(&self) -> Option<&SharedState> {
        self.shared.get()
    }

    /// The same, made if there are none.
    pub(crate) fn share(&self, asi: &mut AsyncSteps) -> &SharedState {
        self.shared.get_or_init(|| asi.state_mut().shared().clone())
    }

    /// What a variable of Rust is for foreign code, until it is looked up again.
    pub(crate) fn see(&self, name: &str, value: &dyn Any) -> *mut c_void {
        if let Some(value) = value.downcast_ref::<Value>() {
            return value.as_object();
        }
        let mut seen = self.seen.borrow_mut();
        let kept = seen.entry(name.to_owned()).or_insert_with(|| Box::new(Value::NONE));
        **kept = Value::seen(value);
        kept.as_object()
    }

    /// A text about the flow. What the running callback `told` counts before what it raised, and
    /// that before what was raised earlier.
    pub(crate) fn text(
        &self,
        which: Text,
        asi: Option<&AsyncSteps>,
        told: Option<&Told>,
    ) -> *mut c_void {
        let last = self.last_error.borrow();
        let raised = asi.and_then(|asi| asi.raised().or_else(|| asi.last_exception()));
        let text = match (which, told, raised.or(last.as_ref())) {
            (Text::Stack, ..) => asi.map(stack_of).unwrap_or_default(),
            (Text::ErrorInfo, Some((_, info)), _) => info.clone().unwrap_or_default(),
            (Text::LastException, Some((code, None)), _) => code.clone(),
            (Text::LastException, Some((code, Some(info))), _) => format!("{code}: {info}"),
            (_, None, None) => String::new(),
            (Text::ErrorInfo, None, Some(error)) => {
                text_of(error, error.info().unwrap_or_default().to_owned())
            }
            (Text::LastException, None, Some(error)) => text_of(error, with_sources(error)),
        };
        let text = c_text(&text);
        let kept = &mut self.texts.borrow_mut()[which as usize];
        // what did not change stays where it is
        if *kept != text {
            *kept = text;
        }
        kept.as_ptr().cast_mut().cast()
    }
}

/// Whether a step was added by these sources for another technology: its place tells nothing there.
fn is_foreign(place: Place) -> bool {
    let folder = file!().strip_suffix("context.rs");
    folder.is_some_and(|folder| place.file().starts_with(folder))
}

/// The steps in progress, outermost first, one in a line.
fn stack_of(asi: &AsyncSteps) -> String {
    let line = |place: Place| match is_foreign(place) {
        true => "a foreign step".to_owned(),
        false => place.to_string(),
    };
    asi.async_stack().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What an error says, without the place of a foreign step.
pub(crate) fn text_of(error: &Error, mut text: String) -> String {
    let place = error.place().filter(|place| is_foreign(*place));
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
