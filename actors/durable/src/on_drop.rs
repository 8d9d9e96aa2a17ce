//! Something that is done at the end of a scope, however that ends.

/// Does something when it is dropped.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

pub(crate) const fn on_drop<F: FnOnce()>(then: F) -> OnDrop<F> {
    OnDrop(Some(then))
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|then| then());
    }
}
