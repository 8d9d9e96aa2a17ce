//! Reading the stored values of a step.

use std::sync::Arc;

use asyncsteps_core::{Args, Arguments, Error};

use crate::stored::{Codec, Stored};

/// Reads a stored result of a step.
#[derive(Clone, derive_more::Debug)]
#[debug("Read")]
pub(super) struct Read(Arc<ReadResult>);

type ReadResult = dyn Fn(&Stored) -> Result<Args, Error> + Send + Sync;

impl Read {
    pub(super) fn of<T: 'static>(codec: Codec<T>) -> Self {
        Self(Arc::new(move |stored| Ok(((codec.read)(stored)?,).into_args())))
    }

    pub(super) fn read(&self, stored: &Stored) -> Result<Args, Error> {
        (self.0)(stored)
    }
}
