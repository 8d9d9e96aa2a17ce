//! The state variables of a flow (FTN12 §2.2.1 `state`, §1.5 copying).

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::shared_state::SharedState;

/// Values by name, shared by all levels and parallel branches of a flow (FTN12 §2.2.1 `state`).
///
/// A value keeps its type: reading it as another type returns `None`. Names are ordered, so listing
/// them is deterministic.
///
/// Variables belong to the thread of the flow, except those in [`shared`](Self::shared), which
/// other threads and foreign code can add and read. [`get`](Self::get) finds both.
///
/// ```
/// # use asyncsteps_core::Flow;
/// let mut flow = Flow::new();
/// flow.state_mut().set("count", 1u32);
/// *flow.state_mut().get_mut::<u32>("count").unwrap() += 1;
/// assert_eq!(flow.state().get::<u32>("count"), Some(&2));
/// assert_eq!(flow.state().get::<String>("count"), None);
/// ```
#[derive(Default)]
pub struct State(Option<Box<Variables>>);

/// Boxed, because many flows have no variables, and the size of the state counts in every flow.
#[derive(Default)]
struct Variables {
    own: BTreeMap<Cow<'static, str>, VariableValue>,
    shared: Option<SharedState>,
}

enum VariableValue {
    Own(Box<dyn Any>),
    /// From a template: copied when the flow first changes it.
    Shared(Arc<dyn SharedValue>),
}

trait SharedValue: Any + Send + Sync {
    fn copy(&self) -> Box<dyn Any>;
}

impl<T: Clone + Send + Sync + 'static> SharedValue for T {
    fn copy(&self) -> Box<dyn Any> {
        Box::new(self.clone())
    }
}

impl VariableValue {
    fn as_any(&self) -> &dyn Any {
        match self {
            Self::Own(value) => &**value,
            Self::Shared(value) => &**value,
        }
    }
}

impl State {
    /// Sets a variable, replacing a value of any type.
    pub fn set<T: 'static>(&mut self, name: impl Into<Cow<'static, str>>, value: T) {
        self.0.get_or_insert_default().own.insert(name.into(), VariableValue::Own(Box::new(value)));
    }

    /// Reads a variable; `None` if it is not there or has another type. If the flow has none of its
    /// own, a shared variable is read.
    #[must_use]
    pub fn get<T: 'static>(&self, name: &str) -> Option<&T> {
        let variables = self.0.as_ref()?;
        let own = variables.own.get(name).and_then(|value| value.as_any().downcast_ref());
        own.or_else(|| variables.shared.as_ref()?.get(name))
    }

    /// Reads a variable of any type, for generic code.
    #[must_use]
    pub fn get_any(&self, name: &str) -> Option<&dyn Any> {
        let variables = self.0.as_ref()?;
        let own = variables.own.get(name).map(VariableValue::as_any);
        own.or_else(|| Some(variables.shared.as_ref()?.get_any(name)? as &dyn Any))
    }

    /// Changes a variable in place; `None` if the flow has none of this name and type, and for
    /// shared variables.
    #[must_use]
    pub fn get_mut<T: 'static>(&mut self, name: &str) -> Option<&mut T> {
        let value = self.0.as_mut()?.own.get_mut(name)?;
        if let VariableValue::Shared(shared) = value {
            *value = VariableValue::Own((**shared).copy());
        }
        match value {
            VariableValue::Own(value) => value.downcast_mut(),
            VariableValue::Shared(_) => None,
        }
    }

    /// Removes a variable and returns its value; `None`, and nothing removed, if the flow has none
    /// of this name and type. Shared variables stay.
    pub fn take<T: 'static>(&mut self, name: &str) -> Option<T> {
        let own = &mut self.0.as_mut()?.own;
        if !own.get(name)?.as_any().is::<T>() {
            return None;
        }
        let value = match own.remove(name)? {
            VariableValue::Own(value) => value,
            VariableValue::Shared(shared) => (*shared).copy(),
        };
        value.downcast().ok().map(|value| *value)
    }

    /// Whether there is a variable of this name, of any type.
    #[must_use]
    pub fn exists(&self, name: &str) -> bool {
        self.get_any(name).is_some()
    }

    /// Removes a variable of any type; says whether it was there. Shared variables stay.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.as_mut().is_some_and(|variables| variables.own.remove(name).is_some())
    }

    /// The names of all variables: in ascending order, then the names of shared variables in the
    /// order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.0.iter().flat_map(|variables| variables.own.keys()).map(|name| &**name);
        let shared = self.0.iter().filter_map(|variables| variables.shared.as_ref());
        own.chain(shared.flat_map(SharedState::names))
    }

    /// The variables that other threads see too; made on the first call.
    pub fn shared(&mut self) -> &SharedState {
        self.0.get_or_insert_default().shared.get_or_insert_default()
    }

    /// Replaces the shared variables, for instance by the variables of an earlier flow.
    pub fn set_shared(&mut self, shared: SharedState) {
        self.0.get_or_insert_default().shared = Some(shared);
    }

    /// Takes the variables of another flow that this flow does not have (FTN12 §2.2.1 `copyFrom`).
    pub(crate) fn take_missing(&mut self, model: Self) {
        let Some(model) = model.0 else { return };
        let Variables { own, shared } = self.0.get_or_insert_default().as_mut();
        for (name, value) in model.own {
            own.entry(name).or_insert(value);
        }
        if shared.is_none() {
            *shared = model.shared;
        }
    }

    /// Copies the variables of a template that the flow does not have (FTN12 §2.2.1 `copyFrom`).
    pub(crate) fn copy_missing(&mut self, model: &TemplateState) {
        for (name, value) in &model.0 {
            let own = &mut self.0.get_or_insert_default().own;
            own.entry(name.clone()).or_insert_with(|| VariableValue::Shared(Arc::clone(value)));
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The state variables of a template: shared by its flows until one of them changes its copy.
#[derive(Clone, Default)]
pub struct TemplateState(BTreeMap<Cow<'static, str>, Arc<dyn SharedValue>>);

impl TemplateState {
    /// Sets a variable that every flow of the template starts with.
    pub fn set<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: T,
    ) {
        self.0.insert(name.into(), Arc::new(value));
    }

    pub(crate) fn copy_missing(&mut self, model: &Self) {
        for (name, value) in &model.0 {
            self.0.entry(name.clone()).or_insert_with(|| Arc::clone(value));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for TemplateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_value_is_copied_when_it_is_changed() {
        let mut model = TemplateState::default();
        model.set("list", vec![1]);
        let (mut one, mut two) = (State::default(), State::default());
        one.copy_missing(&model);
        two.copy_missing(&model);
        one.get_mut::<Vec<i32>>("list").expect("copied").push(2);
        assert_eq!(one.get("list"), Some(&vec![1, 2]));
        assert_eq!(two.take("list"), Some(vec![1]));
        assert!(!two.exists("list"));
    }

    #[test]
    fn copying_keeps_what_is_there() {
        let mut model = TemplateState::default();
        model.set("a", 1);
        model.set("b", 2);
        let mut state = State::default();
        state.set("a", "mine");
        state.copy_missing(&model);
        assert_eq!(state.get("a"), Some(&"mine"));
        assert_eq!(state.names().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_shared_variable_is_read_where_there_is_none_of_its_own() {
        let mut state = State::default();
        state.set("a", 1);
        assert_eq!(state.shared().add("a", "other"), Ok(()));
        assert_eq!(state.shared().add("b", 2), Ok(()));
        assert_eq!((state.get("a"), state.get("a")), (Some(&1), Some(&"other")));
        assert_eq!(state.get("b"), Some(&2));
        assert!(state.get_any("b").is_some_and(<dyn Any>::is::<i32>));
        assert_eq!(state.get_mut::<i32>("b"), None);
        assert_eq!(state.take::<i32>("b"), None);
        assert_eq!((state.remove("b"), state.exists("b")), (false, true));
        assert_eq!(state.names().collect::<Vec<_>>(), ["a", "a", "b"]);
        let mut next = State::default();
        next.set_shared(state.shared().clone());
        assert_eq!(next.get("b"), Some(&2));
    }

    #[test]
    fn taking_under_another_type_removes_nothing() {
        let mut state = State::default();
        state.set("a", 1u8);
        assert_eq!(state.take::<u16>("a"), None);
        assert_eq!(state.take::<u8>("a"), Some(1));
    }
}
