//! Where a step is.

use schemars::JsonSchema;
use serde::Serialize;

/// Name and source place of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct StepPlace {
    /// Its name; not there if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file.
    pub file: String,
    /// The line in it, from 1.
    #[schemars(with = "f64")]
    pub line: u32,
}
