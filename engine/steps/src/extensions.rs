//! Values that a host attaches to a flow: how request APIs extend `AsyncSteps` (FTN12 §1, "derived
//! classes").

use std::any::Any;

use smallvec::SmallVec;

/// One value for each type.
#[derive(Default)]
pub(crate) struct Extensions(SmallVec<[Box<dyn Any>; 1]>);

impl Extensions {
    /// Adds a value, or puts it in the place of the one of its type.
    pub(crate) fn set(&mut self, value: Box<dyn Any>) {
        match self.0.iter_mut().find(|old| (***old).type_id() == (*value).type_id()) {
            Some(old) => *old = value,
            None => self.0.push(value),
        }
    }

    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|value| value.downcast_ref())
    }

    pub(crate) fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find_map(|value| value.downcast_mut())
    }
}
