//! How FTN3 has names written (§2.1, §2.2), and what to write in place of another one.

use crate::iface::{is_error, is_function, is_variable};

/// Checks the name of a function.
///
/// # Errors
/// What to write instead.
pub(super) fn function(name: &str) -> Result<(), String> {
    check(name, is_function, "functions like someFunc", |words| {
        let (first, rest) = words.split_first()?;
        Some(first.clone() + &rest.iter().map(|word| capitalized(word)).collect::<String>())
    })
}

/// The same of a parameter, a variable of a result or a field.
pub(super) fn variable(name: &str) -> Result<(), String> {
    check(name, is_variable, "parameters, results and fields like some_name", |words| {
        Some(words.join("_"))
    })
}

/// The same of the code of an error.
pub(super) fn error(code: &str) -> Result<(), String> {
    check(code, is_error, "errors like SomeError or SOME_ERROR", |words| {
        Some(words.iter().map(|word| capitalized(word)).collect())
    })
}

fn check(
    name: &str,
    is_right: fn(&str) -> bool,
    rule: &str,
    write: impl FnOnce(&[String]) -> Option<String>,
) -> Result<(), String> {
    if is_right(name) {
        return Ok(());
    }
    let right = write(&words(name)).filter(|right| is_right(right));
    let advice = right.map(|right| format!(": write {right}")).unwrap_or_default();
    Err(format!("FTN3 names {rule}{advice}"))
}

/// The words of a name in lower case: `book_durably`, `bookDurably` and `BookDurably` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let begins = was_lower && letter.is_ascii_uppercase();
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if begins || !letter.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_told_with_the_right_one() {
        assert_eq!(
            (function("bookDurably"), variable("sku_id"), error("Gone")),
            (Ok(()), Ok(()), Ok(()))
        );
        let functions = ["book_durably", "Book-Durably", "BookDurably", "1st", "_"].map(function);
        let written = "FTN3 names functions like someFunc: write bookDurably".to_owned();
        let advised = [Err(written.clone()), Err(written.clone()), Err(written)];
        assert_eq!(functions[..3], advised);
        assert_eq!(
            functions[3..],
            [(); 2].map(|()| Err("FTN3 names functions like someFunc".into()))
        );
        let rule = "FTN3 names parameters, results and fields like some_name: write sku_id";
        assert_eq!([variable("skuId"), variable("SKU-id")], [Err(rule.into()), Err(rule.into())]);
        let rule = "FTN3 names errors like SomeError or SOME_ERROR: write CardDeclined";
        assert_eq!(error("card_declined"), Err(rule.into()));
    }
}
