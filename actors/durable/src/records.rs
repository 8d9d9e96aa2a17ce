//! What single records say.

use asyncsteps_journal::Event;
use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::record::{Failure, Started};
use asyncsteps_journal::request::Loaded;

/// How a flow began.
pub(crate) fn started(loaded: &Loaded) -> Option<&Started> {
    loaded.records.iter().find_map(|stored| {
        if let Event::Started(started) = &stored.record.event { Some(started) } else { None }
    })
}

/// The error of a failure.
pub(crate) fn error_of(failure: &Failure) -> asyncsteps_core::Error {
    match &failure.text {
        Some(text) => asyncsteps_core::Error::with_info(failure.code.clone(), text.clone()),
        None => asyncsteps_core::Error::new(failure.code.clone()),
    }
}

/// The failure of an error: its code, and its text for people.
pub(crate) fn failure_of(error: &asyncsteps_core::Error) -> Failure {
    let cut = |text: &str| cut(text, TEXT_BYTES);
    Failure { code: cut(error.code()), text: error.info().map(cut) }
}

/// A text as the journal stores it: cut to a number of bytes, without a character that not all journals can store.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let text = text.replace('\0', "\u{fffd}");
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= most).last().unwrap_or(0);
    text[..end].to_owned()
}
