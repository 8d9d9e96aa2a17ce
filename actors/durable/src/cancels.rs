//! Who or what cancels a request: a person, or the limit of a caller with the error that the caller gets.

use asyncsteps::Error;
use asyncsteps_journal::record::Failure;
use asyncsteps_journal::request::Cancel;

use crate::records::error_of;

/// The code of the error that ends a request which was cancelled.
pub(crate) const CANCELLED: &str = "Cancelled";

/// What a cancel by a limit begins with, in place of who has cancelled: names of people have no such character.
const BY_LIMIT: char = '\u{1}';

/// How long the text of an error may be, in bytes: a cancel has room for it.
const TEXT: usize = 1024;

/// Who cancels a request whose caller waits no longer: its limit, with this failure.
pub(crate) fn by_limit(failure: &Failure) -> String {
    let text = failure.text.as_deref().map(shortened);
    let text = text.map(|text| format!("{BY_LIMIT}{text}")).unwrap_or_default();
    format!("{BY_LIMIT}{}{text}", failure.code)
}

/// The beginning of a text, up to the end of a character.
fn shortened(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    &text[..ends.take_while(|end| *end <= TEXT).last().unwrap_or(0)]
}

/// The failure with which the limit of a caller has ended a request; `None` if somebody has cancelled it.
pub(crate) fn failure_of_limit(by: &str) -> Option<Failure> {
    let failure = by.strip_prefix(BY_LIMIT)?;
    let (code, text) = match failure.split_once(BY_LIMIT) {
        Some((code, text)) => (code, Some(text.to_owned())),
        None => (failure, None),
    };
    Some(Failure { code: code.to_owned(), text })
}

/// Who has cancelled a request, as it is stored: people are no limit.
pub(crate) fn by_person(by: &str) -> String {
    by.replace(BY_LIMIT, " ")
}

/// Who or what has cancelled a request, for people.
pub(crate) fn shown_by(by: &str) -> String {
    match failure_of_limit(by) {
        Some(failure) => format!("the limit of its caller, with {}", failure.code),
        None => by.to_owned(),
    }
}

/// The error with which a cancel ends a request.
pub(crate) fn error_of_cancel(cancel: &Cancel) -> Error {
    match failure_of_limit(&cancel.by) {
        Some(failure) => error_of(&failure),
        None => Error::with_info(CANCELLED, format!("cancelled by {}", cancel.by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_a_limit_is_read_as_it_was_written_and_no_person_writes_one() {
        for text in [None, Some(String::new()), Some("two\nlines".to_owned())] {
            let failure = Failure { code: "Slow".to_owned(), text };
            assert_eq!(failure_of_limit(&by_limit(&failure)), Some(failure));
        }
        let long = Failure { code: "Slow".to_owned(), text: Some("\u{e4}".repeat(5_000)) };
        let text = failure_of_limit(&by_limit(&long)).and_then(|failure| failure.text);
        assert_eq!(text.map(|text| text.len()), Some(TEXT));
        assert_eq!(failure_of_limit(&by_person("\u{1}Slow")), None);
        assert_eq!(failure_of_limit("ann"), None);
    }
}
