//! Fencing tokens of locks: they distinguish an effect of a past holder from one of the present
//! holder.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use asyncsteps_core::AsyncSteps;
use parking_lot::Mutex;

/// The fencing token of a lock between machines: which lock, and the number of its holder. Each holder has
/// a higher number than those before it.
///
/// The target of an effect keeps the highest number that it has seen of a lock, in the transaction of the effect, and
/// refuses lower ones: so an effect of a holder that was believed dead does nothing. Only tokens of one lock compare.
///
/// As text it is `lock;key;epoch`, with `%xx` for bytes of the names that are no letters, digits, `-`, `.`
/// or `_`.
///
/// ```
/// use asyncsteps_actors::sync::FencingToken;
///
/// let (before, now) = (FencingToken::new("stock", "apples", 7), FencingToken::new("stock", "apples", 8));
/// assert!(before < now);
/// assert_eq!(now.to_string(), "stock;apples;8");
/// assert_eq!("stock;apples;8".parse(), Ok(now));
/// let other = FencingToken::new("stock", "pears", 9);
/// assert_eq!(before.partial_cmp(&other), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FencingToken {
    lock: Arc<str>,
    key: Arc<str>,
    epoch: u64,
}

impl FencingToken {
    /// The token of the holder with this number of a key of a lock.
    #[must_use]
    pub fn new(lock: impl Into<Arc<str>>, key: impl Into<Arc<str>>, epoch: u64) -> Self {
        Self { lock: lock.into(), key: key.into(), epoch }
    }

    /// The name of the lock.
    #[must_use]
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// The key of the lock; empty for the lock itself.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The number of the holder, for the column that keeps the highest one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl PartialOrd for FencingToken {
    /// By the number; `None` for tokens of different locks.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let is_same = (&self.lock, &self.key) == (&other.lock, &other.key);
        is_same.then(|| self.epoch.cmp(&other.epoch))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for text in [&self.lock, &self.key] {
            for byte in text.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
                    write!(f, "{}", char::from(byte))?;
                } else {
                    write!(f, "%{byte:02x}")?;
                }
            }
            f.write_str(";")?;
        }
        write!(f, "{}", self.epoch)
    }
}

/// A text is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fencing token: it has to be `lock;key;epoch`")]
pub struct ParseFencingTokenError(String);

impl FromStr for FencingToken {
    type Err = ParseFencingTokenError;

    fn from_str(text: &str) -> Result<Self, ParseFencingTokenError> {
        let wrong = || ParseFencingTokenError(text.chars().take(80).collect());
        let mut parts = text.split(';');
        let (Some(lock), Some(key), Some(epoch), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        match (decode(lock), decode(key), epoch.parse()) {
            (Some(lock), Some(key), Ok(epoch)) => Ok(Self::new(lock, key, epoch)),
            _ => Err(wrong()),
        }
    }
}

/// The text with its `%xx` as bytes.
fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let mut digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
            let value = digits.try_fold(0, |value, digit| Some(value * 16 + digit?))?;
            bytes.push(u8::try_from(value).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The token of a lock that a step holds: kept by the step with [`stack`](AsyncSteps::stack), for the
/// steps inside. Empty until the lock is taken, and with another token when it was taken again.
#[derive(Clone, Debug, Default)]
pub struct HeldFence(Arc<Mutex<Option<FencingToken>>>);

impl HeldFence {
    /// The lock is held with this token.
    pub fn set(&self, fence: FencingToken) {
        *self.0.lock() = Some(fence);
    }

    /// The token.
    #[must_use]
    pub fn get(&self) -> Option<FencingToken> {
        self.0.lock().clone()
    }
}

/// The tokens of the locks that the caller of a flow holds; attached to the flow with
/// [`Flow::extend`](asyncsteps_core::Flow::extend).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerFences(pub Vec<FencingToken>);

/// The tokens of the locks between machines that are held around the running step: by the steps around it,
/// innermost first, then by the [caller](CallerFences) of the flow.
#[must_use]
pub fn fences(asi: &AsyncSteps) -> Vec<FencingToken> {
    let held = asi.kept::<HeldFence>().filter_map(HeldFence::get);
    let of_caller = asi.extension::<CallerFences>().into_iter().flat_map(|fences| &fences.0);
    held.chain(of_caller.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_text() {
        for (lock, key) in [("stock", "apples"), ("", ""), ("a;b", "10 % of\nä,\"x\"")] {
            let fence = FencingToken::new(lock, key, u64::MAX);
            let text = fence.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','), "{text}");
            assert_eq!(text.parse(), Ok(fence));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "a;b", "a;b;c", "a;b;1;2", "a;b;-1", "%;b;1", "%4;b;1", "%zz;b;1", "%ff;b;1"]
        {
            assert_eq!(text.parse::<FencingToken>(), Err(ParseFencingTokenError(text.to_owned())));
        }
    }
}
