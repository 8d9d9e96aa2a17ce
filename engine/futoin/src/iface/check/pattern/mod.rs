//! Regular expressions of ECMAScript whose matching takes bounded time.
//!
//! The crate `regress` decides whether a text is a pattern. The pattern is then translated for one of
//! two engines: `regex` matches regular patterns in time proportional to the text; `fancy-regex`
//! matches lookaround and backreferences by backtracking, which is limited.

mod translate;
mod units;

use self::translate::translate;
use self::units::units;

/// Longest `regex`, in bytes, so that compiling it stays cheap.
const MAX_PATTERN: usize = 4096;

/// Memory for one compiled pattern, in bytes: `.{65536}` needs about half of it.
const MAX_COMPILED: usize = 64 << 20;

/// Longest text that is tried with backtracking, in bytes.
const MAX_BACKTRACKED: usize = 4096;

/// Steps back in one text, some ten milliseconds.
const MAX_BACKTRACKS: usize = 200_000;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern(Engine);

#[derive(Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

impl Pattern {
    /// Reads a pattern without flags.
    ///
    /// # Errors
    /// A text for the author of the definition.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN {
            return Err(format!("longer than {MAX_PATTERN} bytes"));
        }
        regress::Regex::new(pattern).map_err(|error| error.to_string())?;
        let translated = translate(pattern)?;
        let engine = if translated.is_regular {
            let built = regex::RegexBuilder::new(&translated.pattern)
                .size_limit(MAX_COMPILED)
                .build()
                .map_err(|error| error.to_string())?;
            Engine::Linear(built)
        } else {
            let built = fancy_regex::RegexBuilder::new(&translated.pattern)
                .delegate_size_limit(MAX_COMPILED)
                .backtrack_limit(MAX_BACKTRACKS)
                .build()
                .map_err(|error| error.to_string())?;
            Engine::Backtracking(built)
        };
        Ok(Self(engine))
    }

    /// Whether the pattern is somewhere in `text`. A text that needs too much backtracking counts
    /// as no match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let text = units(text);
        match &self.0 {
            Engine::Linear(regex) => regex.is_match(&text),
            Engine::Backtracking(regex) => {
                text.len() <= MAX_BACKTRACKED && regex.is_match(&*text).unwrap_or(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
    }

    #[test]
    fn patterns_mean_what_they_mean_in_ecmascript() {
        // each line was tried in Node.js
        for (pattern, good, bad) in [
            ("", &["", "x"][..], &[][..]),
            ("^[a-z]+$", &["abc"], &["", "aBc", "abc\n"]),
            ("a{2}", &["baab"], &["aba"]),
            ("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
            ("^a{,2}$", &["a{,2}"], &["aa", ""]),
            ("^a{x}$", &["a{x}"], &["a"]),
            ("^]}$", &["]}"], &["x"]),
            ("^.$", &["x", "é", "\u{85}"], &["", "\n", "\r", "\u{2028}", "😀"]),
            ("^..$", &["xy", "😀"], &["x", "😀😀"]),
            ("^😀+$", &["😀"], &["😀😀", ""]),
            ("^[😀]$", &[], &["😀", "x"]),
            ("^[😀]{2}$", &["😀"], &["😀😀"]),
            (r"^\ud83d\ude00$", &["😀"], &["😁"]),
            (r"^[^a]{2}$", &["bc", "😀"], &["ab", "b"]),
            (r"^\d+$", &["0123456789"], &["٣", "a", ""]),
            (r"^\w+$", &["aZ_9"], &["é", "-"]),
            (r"^\W$", &["é", "-"], &["a", "_"]),
            (r"^\s$", &[" ", "\t", "\u{b}", "\u{a0}", "\u{feff}", "\u{2029}"], &["\u{85}", "x"]),
            (r"^\S\D$", &["ab"], &[" b", "a1"]),
            (r"\bfoo\b", &["a foo b", "éfooé"], &["foos", "_foo"]),
            (r"\Boo\B", &["fooo"], &["foo", "oo"]),
            (r"^[\b]$", &["\u{8}"], &["b"]),
            (r"^[\d\-x]+$", &["1-x"], &["y"]),
            (r"^[\w-.]+$", &["a-."], &["+"]),
            (r"^[a\-z]$", &["-"], &["b"]),
            (r"^[-a]$", &["-", "a"], &["b"]),
            (r"^[^\d\s]$", &["a"], &["1", " "]),
            (r"^[\D]$", &["a"], &["1"]),
            ("^[&&~~[-]$", &["&", "~", "-", "["], &["x"]),
            ("[]", &[], &["", "x"]),
            ("^[^]$", &["x", "\n"], &[""]),
            (r"^\x41\u0042\cA\0\t\n\v\f\r$", &["AB\u{1}\0\t\n\u{b}\u{c}\r"], &["AB"]),
            (r"^\/\.\*\-\#\&\~$", &["/.*-#&~"], &["x"]),
            ("^# x$", &["# x"], &["#x"]),
            ("(a|b|)c", &["ac", "c"], &["x"]),
            ("^(?:a)(?<name>b)$", &["ab"], &["a"]),
            ("^a+?b*?c??$", &["aab", "abc"], &["b"]),
            (r"^(?=.*\d)(?=.*[a-z]).{8,}$", &["abcdefg1"], &["abcdefgh", "abc1"]),
            ("^(?!foo)", &["bar"], &["foobar"]),
            ("(?<=a)b", &["ab"], &["cb"]),
            ("(?<!a+)b", &["cb"], &["aab"]),
            (r"^(\w)\1+$", &["aaa"], &["ab", "a"]),
            (r"^(?:(a)|b)\1$", &["aa", "b"], &["a", "ba"]),
            (r"^\1(a)$", &["a"], &["aa"]),
            (r"^(?<x>.)\k<x>$", &["aa"], &["ab", "😀😀"]),
        ] {
            for text in good {
                assert!(is_match(pattern, text), "{pattern} should match {text:?}");
            }
            for text in bad {
                assert!(!is_match(pattern, text), "{pattern} should not match {text:?}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_or_not_supported_is_named() {
        let error = |pattern: &str| Pattern::new(pattern).unwrap_err();
        assert_eq!(error("("), "Unbalanced parenthesis");
        for pattern in ["[z-a]", "a**", "*", r"a{2,1}", r"\"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        for pattern in [r"\01", r"\u{61}", "(?i:a)", r"\p{L}", r"\8"] {
            let error = error(pattern);
            assert!(error.contains("not supported"), "{pattern}: {error}");
        }
        assert!(error(&"(?:a{1000}){1000}{1000}".repeat(2)).len() < 1000);
        assert_eq!(error(&"a".repeat(4097)), "longer than 4096 bytes");
    }

    #[test]
    fn hostile_texts_take_bounded_work() {
        let text = "a".repeat(60_000) + "!";
        for pattern in ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"]
        {
            assert!(matches!(Pattern::new(pattern).unwrap().0, Engine::Linear(_)), "{pattern}");
            assert!(!is_match(pattern, &text), "{pattern}");
        }
        for pattern in [r"^(a+)+\1$", "^(?=(a+)+$)", "(?=a)(a+)+$"] {
            for length in [29, 4095, 60_000] {
                assert!(!is_match(pattern, &text[60_000 - length..]), "{pattern} {length}");
            }
        }
    }

    proptest! {
        /// The engine that backtracks without limit is the reference, on texts short enough.
        #[test]
        fn regress_says_the_same(
            pattern in r"(\^|)([abc.]|\[[ab]\]|\[\^a\]|\\d|\\w|\\b|\(a\|b\)|\(\?=b\)|\(\?!c\)|a\*|b\+|c\?|\|){0,6}(\$|)",
            text in "[abc1 \n]{0,8}",
        ) {
            let reference = regress::Regex::new(&pattern).map(|regex| regex.find(&text).is_some());
            let ours = Pattern::new(&pattern).map(|pattern| pattern.is_match(&text));
            prop_assert_eq!(ours.ok(), reference.ok(), "{}", pattern);
        }
    }
}
