//! The context of a flow, which all its handles share: event loop, state variables, memory, errors.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{AsyncSteps, Error, SharedState, StepLocation};

use crate::guard::{Misuse, c_text};
use crate::handle::OpenHandle;
use crate::host::{self, EventLoop};
use crate::memory::MemoryBlocks;
use crate::value::Value;

/// One for each flow.
#[derive(Default)]
pub(crate) struct Context {
    /// Set when foreign code first needs it.
    host: OnceCell<Arc<dyn EventLoop>>,
    /// The variables that all threads see. Set when foreign code first needs it, or other threads
    /// first may.
    shared: OnceCell<SharedState>,
    /// The variables of Rust that foreign code looked up, as they were then.
    views: RefCell<BTreeMap<String, Box<Value>>>,
    /// The memory that lives as long as the root.
    pub(crate) memory: RefCell<MemoryBlocks>,
    /// The last value of each [`Text`] that was asked for, which foreign code may point to.
    texts: RefCell<[Option<CString>; 3]>,
    /// The error that ended the flow.
    last_error: RefCell<Option<Error>>,
    /// The flow is cancelled or freed, so that its turn ends with the running callback.
    pub(crate) is_ended: Cell<bool>,
    /// The handle for the next callback.
    pub(crate) spare: Cell<Option<OpenHandle>>,
}

/// A text about a flow (FTN12 §1.7).
#[derive(Clone, Copy)]
pub(crate) enum Text {
    ErrorInfo,
    LastException,
    Stack,
}

/// Code and information that `handle_error` got.
pub(crate) type ToldError = (String, Option<String>);

impl Context {
    /// The context of a flow, made when it is first asked for.
    pub(crate) fn of(asi: &mut AsyncSteps) -> Rc<Self> {
        if let Some(context) = asi.extension::<Rc<Self>>() {
            return Rc::clone(context);
        }
        let host = asi.extension::<Arc<dyn EventLoop>>().cloned().map(OnceCell::from);
        let context = Rc::new(Self { host: host.unwrap_or_default(), ..Self::default() });
        asi.extend(Rc::clone(&context));
        context
    }

    pub(crate) fn host(&self) -> Result<&Arc<dyn EventLoop>, Misuse> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let none = Misuse::Rule("the host of the flow gives no event loop");
        let found = host::of_thread().ok_or(none)?;
        Ok(self.host.get_or_init(|| found))
    }

    /// Sets where the flow will run, unless that is known already.
    pub(crate) fn set_host(&self, host: &Arc<dyn EventLoop>) {
        self.host.get_or_init(|| Arc::clone(host));
    }

    /// Makes this the context of another flow of the same root.
    pub(crate) fn attach_to(self: &Rc<Self>, asi: &mut AsyncSteps) {
        if let Some(shared) = self.shared.get() {
            asi.state_mut().set_shared(shared.clone());
        }
        asi.extend(Rc::clone(self));
    }

    /// Another context with everything that outlives a flow of its root.
    pub(crate) fn detach(&self) -> Rc<Self> {
        Rc::new(Self {
            host: self.host.clone(),
            shared: self.shared.clone(),
            views: self.views.take().into(),
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

    /// The variables that all threads see, made if there are none.
    pub(crate) fn share(&self, asi: &mut AsyncSteps) -> &SharedState {
        self.shared.get_or_init(|| asi.state_mut().shared().clone())
    }

    /// The value that foreign code sees of a variable of Rust, until it looks it up again.
    pub(crate) fn view(&self, name: &str, value: &dyn Any) -> *mut c_void {
        if let Some(value) = value.downcast_ref::<Value>() {
            return value.as_object();
        }
        let mut views = self.views.borrow_mut();
        let kept = views.entry(name.to_owned()).or_insert_with(|| Box::new(Value::NONE));
        **kept = Value::seen(value);
        kept.as_object()
    }

    /// A text about the flow. The error that the running callback reported (`told`) comes first, then
    /// the error that it raised, then earlier ones.
    pub(crate) fn text(
        &self,
        which: Text,
        asi: Option<&AsyncSteps>,
        told: Option<&ToldError>,
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
        // foreign code may point to a text that has not changed
        if kept.as_ref() != Some(&text) {
            *kept = Some(text);
        }
        kept.as_deref().unwrap_or_default().as_ptr().cast_mut().cast()
    }
}

/// Whether foreign code added the step: then its place in our sources says nothing.
fn is_foreign(place: StepLocation) -> bool {
    let folder = file!().strip_suffix("context.rs");
    folder.is_some_and(|folder| place.file().starts_with(folder))
}

/// The steps in progress, outermost first, one in a line.
fn stack_of(asi: &AsyncSteps) -> String {
    let line = |place: StepLocation| match is_foreign(place) {
        true => "a foreign step".to_owned(),
        false => place.to_string(),
    };
    asi.async_stack().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The text of an error without the place of a foreign step.
pub(crate) fn text_of(error: &Error, mut text: String) -> String {
    let place = error.location().filter(|place| is_foreign(*place));
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
