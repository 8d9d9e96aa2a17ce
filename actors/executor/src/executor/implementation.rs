//! The business logic of a function as it is hosted.

use std::any::TypeId;
use std::fmt;

use asyncsteps::{Args, Arguments, Error, Template, codes};
use serde::Serialize;
use serde_json::Value;

/// The business logic of a function.
#[derive(Clone)]
pub(super) struct Implementation {
    pub(super) template: Template,
    /// Writes what the last step gives as JSON; `None` for a template, whose last step does so.
    write: Option<fn(Args) -> Result<Args, Error>>,
}

impl Implementation {
    /// A function whose last step gives `(R,)`.
    #[cfg_attr(not(feature = "schemars"), expect(dead_code, reason = "handlers use it"))]
    pub(super) fn typed<R: Serialize + 'static>(template: Template) -> Self {
        Self { template, write: Some(write::<R>) }
    }

    /// The result of the last step, for a [`ResultDraft`](super::result_draft::ResultDraft).
    pub(super) fn written(&self, args: Args) -> Result<Args, Error> {
        match self.write {
            Some(write) => write(args),
            None => Ok(args),
        }
    }
}

impl From<&Template> for Implementation {
    fn from(template: &Template) -> Self {
        Self { template: template.clone(), write: None }
    }
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.template.fmt(f)
    }
}

fn write<R: Serialize + 'static>(args: Args) -> Result<Args, Error> {
    let (result,) = <(R,)>::from_args(args)
        .map_err(|mismatch| Error::caused_by(codes::INTERNAL_ERROR, mismatch))?;
    if TypeId::of::<R>() == TypeId::of::<()>() {
        return Ok(Args::none());
    }
    Ok((to_json(result)?,).into_args())
}

fn to_json(result: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(result).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error))
}
