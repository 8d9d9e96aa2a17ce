//! The description of a step (FTN12 §2.2.1): where it was added, its name, its error handler.

use std::panic::Location;
use std::sync::Arc;

use super::shapes::{About, Description, Handler, TemplateStep};
use crate::location::StepLocation;

impl About {
    /// A step without an error handler.
    pub(crate) fn at(location: StepLocation) -> Self {
        Self::of_flow(location.source(), Description::of_name(location))
    }

    /// A step of a flow, with the same source in both.
    #[inline]
    pub(crate) fn of_flow(
        source: &'static Location<'static>,
        description: Option<Box<Description>>,
    ) -> Self {
        description.map_or(Self::Place(source), Self::Own)
    }

    /// A step of a template. Its error handler is called where it is, unless the body takes it over.
    #[inline]
    pub(crate) fn of_template(step: &Arc<TemplateStep>) -> Self {
        if step.is_sync
            && let Some(handler) = &step.handler
        {
            let handler = Arc::clone(handler);
            let handler: Handler = Box::new(move |asi, error| handler(asi, error));
            let (location, handler) = (step.location, Some(handler));
            return Self::Own(Box::new(Description { location, handler }));
        }
        match step.location.name() {
            None => Self::Place(step.location.source()),
            Some(_) => Self::Shared(Arc::clone(step)),
        }
    }

    /// A part of this step: it is shown as the step, and has no error handler.
    #[inline]
    pub(crate) fn of_part(&self) -> Self {
        match self {
            Self::Place(source) => Self::Place(source),
            Self::Own(own) => Self::at(own.location),
            Self::Shared(step) => Self::Shared(Arc::clone(step)),
        }
    }

    #[inline]
    pub(crate) fn location(&self) -> StepLocation {
        match self {
            Self::Place(source) => StepLocation::new(source, None),
            Self::Own(own) => own.location,
            Self::Shared(step) => step.location,
        }
    }

    pub(crate) fn set_handler(&mut self, handler: Handler) {
        self.own().handler = Some(handler);
    }

    pub(crate) fn take_handler(&mut self) -> Option<Handler> {
        if let Self::Own(own) = self { own.handler.take() } else { None }
    }

    fn own(&mut self) -> &mut Description {
        if !matches!(self, Self::Own(_)) {
            *self = Self::Own(Box::new(Description { location: self.location(), handler: None }));
        }
        match self {
            Self::Own(own) => own,
            Self::Place(_) | Self::Shared(_) => unreachable!("it is its own now"),
        }
    }
}

impl Description {
    /// The description of a step without an error handler; `None` if it has no name either.
    #[inline]
    pub(crate) fn of_name(location: StepLocation) -> Option<Box<Self>> {
        location.name().map(|_| Box::new(Self { location, handler: None }))
    }
}
