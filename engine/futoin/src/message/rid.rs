//! The ids of requests.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A request id: a string (FTN3 §1.3). A number is accepted and repeated, too.
///
/// Clones share its text, which a client may make as long as a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Rid(Arc<Value>);

impl Rid {
    /// `None` unless `value` is a string or a number.
    #[must_use]
    pub fn new(value: Value) -> Option<Self> {
        (value.is_string() || value.is_number()).then(|| Self(Arc::new(value)))
    }

    /// The id as a JSON value.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            Some(text) => f.write_str(text),
            None => self.0.fmt(f),
        }
    }
}
