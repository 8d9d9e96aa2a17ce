//! The forms of the log.

use super::notice::Notice;
use super::{json, text};

/// The form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are people, and there are programs")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line, with `timestamp`, `level`, `target`, `fields` and `spans`.
    Json,
}

impl Format {
    /// The line of a notice.
    pub(super) fn line(self, notice: &Notice<'_>) -> String {
        match self {
            Self::Text => text::line(notice),
            Self::Json => json::line(notice),
        }
    }
}
