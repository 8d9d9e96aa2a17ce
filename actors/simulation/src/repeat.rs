//! The part of a seed that is run, as it is printed and read again.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeFrom;
use std::str::FromStr;
use std::time::Duration;

/// A run: a seed, and the parts that are left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepeatedRun {
    pub(crate) seed: u64,
    /// Until when there are faults.
    pub(crate) until: Option<Duration>,
    /// The nodes that never start.
    pub(crate) without: BTreeSet<String>,
    /// The faults that strike; all of them if none are said.
    pub(crate) only: Option<BTreeSet<FaultId>>,
}

/// A fault of a run: which one of its node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaultId {
    pub(crate) node: usize,
    pub(crate) count: usize,
}

/// The run that the variable `SEEDS` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskedRuns {
    /// One run, with its log.
    One(RepeatedRun),
    /// `5..10`, without the last one.
    Range(std::ops::Range<u64>),
    /// `5..`: until one fails.
    From(RangeFrom<u64>),
}

impl RepeatedRun {
    pub(crate) const fn of(seed: u64) -> Self {
        Self { seed, until: None, without: BTreeSet::new(), only: None }
    }
}

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.count)
    }
}

impl FromStr for FaultId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, count) = text.split_once('.').ok_or_else(|| format!("no fault: {text}"))?;
        Ok(Self { node: number(node)?, count: number(count)? })
    }
}

impl fmt::Display for RepeatedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        if let Some(until) = self.until {
            write!(f, " until={}", until.as_millis())?;
        }
        if !self.without.is_empty() {
            write!(f, " without={}", list(&self.without))?;
        }
        if let Some(only) = &self.only {
            write!(f, " only={}", list(only))?;
        }
        Ok(())
    }
}

impl FromStr for AskedRuns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((from, to)) = text.split_once("..") {
            let from = number(from)?;
            return Ok(match to {
                "" => Self::From(from..),
                to => Self::Range(from..number(to)?),
            });
        }
        let mut words = text.split_whitespace();
        let mut repeat = RepeatedRun::of(number(words.next().unwrap_or_default())?);
        for word in words {
            match word.split_once('=') {
                Some(("until", time)) => {
                    repeat.until = Some(Duration::from_millis(number(time)?));
                }
                Some(("without", names)) => {
                    repeat.without = names.split(',').map(str::to_owned).collect();
                }
                Some(("only", faults)) => {
                    let faults = faults.split(',').filter(|fault| !fault.is_empty());
                    repeat.only = Some(faults.map(str::parse).collect::<Result<_, _>>()?);
                }
                _ => return Err(format!("not a part of a run: {word}")),
            }
        }
        Ok(Self::One(repeat))
    }
}

fn list<T: fmt::Display>(items: &BTreeSet<T>) -> String {
    let items: Vec<_> = items.iter().map(T::to_string).collect();
    items.join(",")
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("not a number: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let faults = [FaultId { node: 0, count: 3 }, FaultId { node: 2, count: 11 }];
        for only in [None, Some(BTreeSet::new()), Some(BTreeSet::from(faults))] {
            let repeat = RepeatedRun {
                seed: 7,
                until: Some(Duration::from_millis(45_020)),
                without: BTreeSet::from(["shop-1".to_owned(), "two".to_owned()]),
                only,
            };
            assert_eq!(repeat.to_string().parse(), Ok(AskedRuns::One(repeat)));
        }
        assert_eq!("7".parse(), Ok(AskedRuns::One(RepeatedRun::of(7))));
        assert_eq!("3..5".parse(), Ok(AskedRuns::Range(3..5)));
        assert_eq!("3..".parse(), Ok(AskedRuns::From(3..)));
    }

    #[test]
    fn what_is_no_run_is_refused_with_the_word() {
        for (text, word) in
            [("x", "\"x\""), ("7 when=3", "when=3"), ("7 only=3", "3"), ("..5", "\"\"")]
        {
            let refused = text.parse::<AskedRuns>().expect_err(text);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
