//! State variables (FTN12 §1.7, §2.2.1 `state`): of foreign code, of steps in Rust, and the special
//! ones about errors.
#![expect(unsafe_code, reason = "destructors from outside")]

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::rc::Rc;
use std::{fmt, ptr};

use asyncsteps_core::{AsyncSteps, SharedState};

use crate::abi::{Allocate, CleanupVariable};
use crate::context::{Context, Text};
use crate::guard::Misuse;
use crate::handle::Handle;
use crate::local::{LocalPart, Target};
use crate::value::Value;

/// A state variable that foreign code made (FTN12 §2.7.2 `stateVariable`).
///
/// A step in Rust reads it by its name: `asi.state().get::<Variable>("name")`. Only the code that made
/// it knows the type of its target.
pub struct Variable {
    value: *mut c_void,
    data: *mut c_void,
    cleanup: Option<CleanupVariable>,
}

// SAFETY: its readers only read the pointer. FTN12 §2.7.2 wants its target released once, and the
// foreign code that made it allows that on the thread that frees the root
unsafe impl Send for Variable {}
// SAFETY: as above; it does not change
unsafe impl Sync for Variable {}

impl Variable {
    /// The pointer that `allocate` returned.
    #[must_use]
    pub fn as_ptr(&self) -> *mut c_void {
        self.value
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup {
            // SAFETY: FTN12 §2.7.2 wants it called once, with what `allocate` returned
            unsafe { cleanup(self.data, self.value) };
        }
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({:p})", self.value)
    }
}

/// The value that foreign code sees of a shared variable of Rust. It is kept next to the variable,
/// under the same name.
struct VariableView(Value);

// SAFETY: it does not change, and owns nothing but copies of numbers and texts
unsafe impl Send for VariableView {}
// SAFETY: as above
unsafe impl Sync for VariableView {}

/// The target of `last_exception`: a null `exception_ptr` for the C++ binding, and an empty text for
/// C.
static NO_EXCEPTION: [usize; 4] = [0; 4];

/// A special variable (FTN12 §1.7); `None` for other names. `text` returns a text about the flow.
fn special<R>(
    name: &CStr,
    text: impl FnOnce(Text) -> Result<*mut c_void, R>,
) -> Option<Result<*mut c_void, R>> {
    match name.to_bytes() {
        b"error_info" => Some(text(Text::ErrorInfo)),
        b"async_stack" => Some(text(Text::Stack)),
        b"last_exception" => Some(Ok(ptr::from_ref(&NO_EXCEPTION).cast_mut().cast())),
        _ => None,
    }
}

/// The value of a variable without a flow. Special variables are never null.
pub(crate) fn missing(name: &CStr) -> *mut c_void {
    let empty = |_| Ok::<_, ()>(c"".as_ptr().cast_mut().cast());
    special(name, empty).and_then(Result::ok).unwrap_or(ptr::null_mut())
}

/// The name of a variable in Rust. A name that is not Unicode is escaped after a replacement character,
/// so that it differs from every Unicode name without that character.
fn name_of(name: &CStr) -> Cow<'_, str> {
    match name.to_str() {
        Ok(name) => Cow::Borrowed(name),
        Err(_) => Cow::Owned(format!("\u{FFFD}{}", name.to_bytes().escape_ascii())),
    }
}

fn pointer_in(shared: &SharedState, name: &str) -> Option<*mut c_void> {
    shared.get::<Variable>(name).map(Variable::as_ptr)
}

/// A shared variable, of foreign code or of Rust, as foreign code sees it.
fn seen_in(shared: &SharedState, name: &str) -> Option<*mut c_void> {
    let view = || shared.get::<VariableView>(name).map(|VariableView(value)| value.as_object());
    pointer_in(shared, name).or_else(view).or_else(|| {
        let value = Value::seen(shared.get_any(name)?);
        // another thread that is faster adds an equal view
        drop(shared.add(name.to_owned(), VariableView(value)));
        view()
    })
}

impl Handle {
    /// A state variable. If it is missing, `allocate` makes it; without `allocate` it is null then, and
    /// variables of steps in Rust are found, too, as values.
    pub(crate) fn variable(
        self,
        name: &CStr,
        data: *mut c_void,
        (allocate, cleanup): (Option<Allocate>, Option<CleanupVariable>),
    ) -> Result<*mut c_void, Misuse> {
        if let Some(special) = special(name, |text| self.text(text)) {
            return special;
        }
        let name = name_of(name);
        let Some(allocate) = allocate else {
            return Ok(self.look_up(&name)?.unwrap_or(ptr::null_mut()));
        };
        if let Some(found) = self.with_shared(|shared| pointer_in(shared, &name))? {
            return Ok(found);
        }
        // SAFETY: FTN12 §2.7.2 wants it called with `data`; nothing is borrowed or locked meanwhile
        let value = unsafe { allocate(data) };
        let new = Variable { value, data, cleanup };
        let (kept, refused) = self.with_shared(|shared| {
            let refused = shared.add(name.clone().into_owned(), new).err();
            (pointer_in(shared, &name), refused)
        })?;
        // refused if `allocate` itself or another thread made one of the same name
        drop(refused);
        Ok(kept.unwrap_or(ptr::null_mut()))
    }

    /// A text about the flow. The pointer is valid until the text changes.
    pub(crate) fn text(self, which: Text) -> Result<*mut c_void, Misuse> {
        let mut local = self.local()?;
        let context = Rc::clone(local.context()?);
        let told = match &local.error {
            None => self.around(&context).and_then(|step| step.local().ok()?.error.clone()),
            told @ Some(_) => told.clone(),
        };
        let text = |asi: Option<&AsyncSteps>| context.text(which, asi, told.as_ref());
        let in_flow = self.with_flow(&mut local, &context, |asi| text(Some(asi)));
        Ok(in_flow.unwrap_or_else(|| text(None)))
    }

    /// A variable, of foreign code or of Rust, as foreign code sees it.
    fn look_up(self, name: &str) -> Result<Option<*mut c_void>, Misuse> {
        if !self.is_same_thread() {
            return self.with_shared(|shared| seen_in(shared, name));
        }
        let mut local = self.local()?;
        let context = Rc::clone(local.context()?);
        let in_flow = self.with_flow(&mut local, &context, |asi| {
            let state = asi.state();
            let variable = state.get::<Variable>(name).map(Variable::as_ptr);
            variable.or_else(|| state.get_any(name).map(|value| context.view(name, value)))
        });
        let in_shared = || context.shared().and_then(|shared| seen_in(shared, name));
        Ok(in_flow.unwrap_or_else(in_shared))
    }

    /// The variables that all threads see.
    fn with_shared<R>(self, see: impl FnOnce(&SharedState) -> R) -> Result<R, Misuse> {
        if !self.is_same_thread() {
            let remote = self.remote()?;
            let shared = remote.shared.as_ref().ok_or(Misuse::ELSEWHERE)?;
            return Ok(see(shared));
        }
        let mut local = self.local()?;
        let context = Rc::clone(local.context()?);
        if let Some(shared) = context.shared() {
            return Ok(see(shared));
        }
        let shared = self.with_flow(&mut local, &context, |asi| context.share(asi).clone());
        Ok(see(&shared.ok_or(Misuse::NotRunning)?))
    }

    /// Calls `see` with the flow where it can be reached: in its callbacks, and before it is executed.
    fn with_flow<R>(
        self,
        local: &mut LocalPart,
        context: &Rc<Context>,
        see: impl FnOnce(&mut AsyncSteps) -> R,
    ) -> Option<R> {
        if let Target::Root(flow) = &mut local.target {
            return Some(see(flow.steps()));
        }
        let callback = if self.is_running() { self } else { self.around(context)? };
        callback.with_asi(see)
    }

    /// The callback of the same flow in which this is called.
    fn around(self, context: &Rc<Context>) -> Option<Self> {
        let running = Self::running().filter(|running| *running != self)?;
        let is_same = Rc::ptr_eq(running.local().ok()?.context().ok()?, context);
        is_same.then_some(running)
    }
}
