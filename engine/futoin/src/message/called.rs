//! The field `f` of a request.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::binary::{self, Sink};
use crate::iface::FunctionName;

/// The field `f` of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Called {
    /// As it was sent: any value.
    Sent(Value),
    /// The name of a function.
    Name(FunctionName),
}

impl Called {
    /// The field as text, if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Sent(f) => f.as_str(),
            Self::Name(name) => Some(name.as_str()),
        }
    }

    /// Writes the field in a binary coding.
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Sent(f) => binary::write(sink, f, None),
            Self::Name(name) => sink.text(name.as_str()),
        }
    }
}

impl Serialize for Called {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sent(f) => f.serialize(serializer),
            Self::Name(name) => serializer.serialize_str(name.as_str()),
        }
    }
}
