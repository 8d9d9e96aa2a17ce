//! The future of a fabric.

use std::pin::Pin;

/// The future of a [`Fabric`](crate::Fabric).
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
