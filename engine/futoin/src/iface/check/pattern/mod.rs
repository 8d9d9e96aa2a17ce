//! Regular expressions of ECMAScript that match in time proportional to the text.
//!
//! The crate `regex` does all of it. A pattern that it cannot match, with lookaround or
//! backreferences, or that it reads in another way than ECMAScript, is refused.

mod ecmascript;
mod units;

use self::units::units;

/// Longest `regex`, in bytes, so that compiling it stays cheap.
const MAX_PATTERN: usize = 4096;

/// Memory for one compiled pattern, in bytes: `.{65536}` needs about half of it.
const MAX_COMPILED: usize = 64 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// As the definition writes it.
    source: Box<str>,
    regex: regex::Regex,
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
        let regex = regex::RegexBuilder::new(&ecmascript::read(&units(pattern))?)
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { source: pattern.into(), regex })
    }

    /// The pattern as its definition writes it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is somewhere in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(&units(text))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
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
            ("^]}$", &["]}"], &["x"]),
            ("^.$", &["x", "é", "\u{85}"], &["", "\n", "\r", "\u{2028}", "😀"]),
            ("^..$", &["xy", "😀"], &["x", "😀😀"]),
            ("^😀+$", &["😀"], &["😀😀", ""]),
            ("^[😀]$", &[], &["😀", "x"]),
            ("^[😀]{2}$", &["😀"], &["😀😀"]),
            (r"^[^a]{2}$", &["bc", "😀"], &["ab", "b"]),
            (r"^\d+$", &["0123456789"], &["٣", "a", ""]),
            (r"^\w+$", &["aZ_9"], &["é", "-"]),
            (r"^\W$", &["é", "-"], &["a", "_"]),
            (r"^\s$", &[" ", "\t", "\u{b}", "\u{a0}", "\u{feff}", "\u{2029}"], &["\u{85}", "x"]),
            (r"^\S\D$", &["ab"], &[" b", "a1"]),
            (r"\bfoo\b", &["a foo b", "éfooé"], &["foos", "_foo"]),
            (r"^[\d\-x]+$", &["1-x"], &["y"]),
            (r"^[a\-z]$", &["-"], &["b"]),
            (r"^[-a]$", &["-", "a"], &["b"]),
            (r"^[^\d\s]$", &["a"], &["1", " "]),
            (r"^[\D]$", &["a"], &["1"]),
            (r"^\x41\u0042\t\n\v\f\r$", &["AB\t\n\u{b}\u{c}\r"], &["AB"]),
            (r"^\/\.\*\-\#\&\~$", &["/.*-#&~"], &["x"]),
            ("^# x$", &["# x"], &["#x"]),
            ("(a|b|)c", &["ac", "c"], &["x"]),
            ("^(?:a)(?<name>b)$", &["ab"], &["a"]),
            ("^a+?b*?c??$", &["aab", "abc"], &["b"]),
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
    fn what_is_no_pattern_or_not_supported_is_refused_with_its_place() {
        let error = |pattern: &str| Pattern::new(pattern).unwrap_err();
        for pattern in [
            "[z-a]",
            "a**",
            "*",
            r"a{2,1}",
            r"\",
            "(?=a",
            "^a{,2}$",
            "^a{x}$",
            "[]",
            "^[^]$",
            "^*",
            r"^\ud83d\ude00$",
            r"\cA",
            r"\0",
            r"\01",
            r"\1",
            r"\8",
            r"^[\w-.]+$",
            r"(?<x>.)\k<x>",
        ] {
            assert!(error(pattern).contains(", at character "), "{pattern}: {}", error(pattern));
        }
        let shown = [
            "(",
            "^(?=.*[a-z]).{8,}$",
            "^(?!foo)",
            "(?<=a)b",
            "b(?<!a+)",
            r"^(\w)\1+$",
            r"x\B",
            r"^[\b]$",
            "x[&&~~[-]",
            "[a--b]",
            "[[a]]",
            "[[:alpha:]]",
            "[]a]",
            "[--a]",
            "^^*",
            r"\u{61}",
            r"\x{61}",
            r"\a",
            r"\A",
            r"a\z",
            r"\<",
            "(?i:a)",
            "a(?i)",
            "(?P<a>b)",
            "(?<a.b>c)",
            r"a\p{L}",
            r"[\pL]",
            "a+{2}",
        ];
        let shown: String =
            shown.iter().map(|pattern| format!("{pattern}: {}\n", error(pattern))).collect();
        expect![[r#"
            (: unclosed group, at character 1
            ^(?=.*[a-z]).{8,}$: look-around, including look-ahead and look-behind, is not supported, at character 2
            ^(?!foo): look-around, including look-ahead and look-behind, is not supported, at character 2
            (?<=a)b: look-around, including look-ahead and look-behind, is not supported, at character 1
            b(?<!a+): look-around, including look-ahead and look-behind, is not supported, at character 2
            ^(\w)\1+$: backreferences are not supported, at character 6
            x\B: this assertion is not supported, at character 2
            ^[\b]$: invalid escape sequence found in character class, at character 3
            x[&&~~[-]: unclosed character class, at character 2
            [a--b]: an operator of classes is not supported, at character 2
            [[a]]: a class in a class is not supported, at character 2
            [[:alpha:]]: a class in a class is not supported, at character 2
            []a]: ] at the start of a class is not supported, at character 2
            [--a]: -- at the start of a class is not supported, at character 2
            ^^*: a quantifier here is not supported, at character 3
            \u{61}: this escape is not supported, at character 1
            \x{61}: this escape is not supported, at character 1
            \a: this escape is not supported, at character 1
            \A: this assertion is not supported, at character 1
            a\z: this assertion is not supported, at character 2
            \<: this assertion is not supported, at character 1
            (?i:a): this kind of group is not supported, at character 1
            a(?i): a flag is not supported, at character 2
            (?P<a>b): this kind of group is not supported, at character 1
            (?<a.b>c): this kind of group is not supported, at character 1
            a\p{L}: \p is not supported, at character 2
            [\pL]: a class in a class is not supported, at character 2
            a+{2}: a quantifier here is not supported, at character 3
        "#]].assert_eq(&shown);
        assert!(error("(?:(?:a{1000}){1000}){1000}").contains("size limit"));
        assert_eq!(error(&"a".repeat(4097)), "longer than 4096 bytes");
    }

    #[test]
    fn hostile_texts_take_bounded_work() {
        let text = "a".repeat(60_000) + "!";
        for pattern in ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"]
        {
            assert!(!is_match(pattern, &text), "{pattern}");
        }
    }

    /// `regress` is the reference: ECMAScript, by backtracking without limit, so texts are short.
    fn matches_as_ecmascript(pattern: &str, text: &str) -> Option<bool> {
        regress::Regex::new(pattern).ok().map(|regex| regex.find(text).is_some())
    }

    proptest! {
        #[test]
        fn regular_patterns_are_those_of_ecmascript(
            pattern in r"(\^|)([abc.]|\[[ab]\]|\[\^a\]|\\d|\\w|\\b|\(a\|b\)|a\*|b\+|c\?|\|){0,6}(\$|)",
            text in "[abc1 \n]{0,8}",
        ) {
            let ours = Pattern::new(&pattern).map(|pattern| pattern.is_match(&text));
            prop_assert_eq!(ours.ok(), matches_as_ecmascript(&pattern, &text), "{}", pattern);
        }

        #[test]
        fn a_pattern_that_is_not_refused_means_what_it_means_in_ecmascript(
            pattern in r"([abx1,:<>=!&~_^$.*+?|/-]|[(][)]|[(][?]|[(]|[)]|\[|\]|\[\^|\{1?,?2?\}|[{}]|\\[-AbBcdDGkKpPsSwWzZaux0-9<>_.\]\\&~/]|\\u00[46]1|\\x[46]1|é|\t){0,9}",
            text in "[abx1,:&_~^<> A\t\né-]{0,6}",
        ) {
            if let Ok(ours) = Pattern::new(&pattern) {
                let ours = ours.is_match(&text);
                prop_assert_eq!(Some(ours), matches_as_ecmascript(&pattern, &text), "{}", pattern);
            }
        }
    }
}
