//! Typed arguments: erased by `success`, restored by the next step (FTN12 §2.2.2).
//!
//! Up to four values travel as one erased tuple. The same type on both sides costs a type check;
//! a step that declares fewer values ignores the rest; numbers and text convert where nothing is
//! lost; anything else is an `InternalError` that names both types.

mod convert;
mod foreign;

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

pub(crate) use convert::Scalar;
pub use foreign::{Foreign, ForeignArgs};

/// The most values that one `success` carries (FTN12 §2.7.2).
pub const MAX_ARGS: usize = 4;

type Elements = SmallVec<[Box<dyn Any>; MAX_ARGS]>;

/// Zero to four result values of a step, erased.
///
/// A step that declares `Args` takes whatever came: generic code and interpreters use it.
#[derive(Default)]
pub struct Args(Repr<Box<dyn Tuple>>);

/// [`Args`] that may change threads; made by [`SendArguments`] only.
#[doc(hidden)]
#[derive(Default)]
#[expect(missing_debug_implementations, unnameable_types, reason = "opaque on purpose")]
pub struct SendArgs(Repr<Box<dyn Tuple + Send>>);

/// Values of one or two numbers need no allocation.
#[derive(Default)]
enum Repr<B> {
    #[default]
    Empty,
    One(Scalar),
    Two(Scalar, Scalar),
    Boxed(B),
}

/// Types that a step can give and take: `()`, one value, and tuples of one to four values.
///
/// A bare value is an [`Arg`]; inside a tuple any `'static` type will do, so `(value,)` works for
/// types of other crates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the argument or result of a step",
    label = "neither a tuple nor an `Arg`",
    note = "write `impl asyncsteps::Arg for {Self} {{}}`, or pass it as the tuple `(value,)`"
)]
pub trait Arguments: Sized + 'static {
    /// Erases the values.
    fn into_args(self) -> Args;

    /// Restores the values.
    ///
    /// # Errors
    /// [`Mismatch`] if `args` holds fewer values, or values of types without a lossless
    /// conversion.
    fn from_args(args: Args) -> Result<Self, Mismatch>;
}

/// [`Arguments`] that may change threads: what a [`Completion`](crate::Completion) carries.
///
/// Implemented for all arguments whose values are `Send`, except the erased [`Args`].
pub trait SendArguments: Arguments + Send + sealed::Sealed {
    #[doc(hidden)]
    fn into_send_args(self) -> SendArgs;
}

/// A single type that a step can give and take without a tuple around it.
///
/// Implemented for the usual standard types; one line makes it work for a type of your own:
/// ```
/// struct Order { id: u64 }
/// impl asyncsteps::Arg for Order {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the argument or result of a step",
    note = "write `impl asyncsteps::Arg for {Self} {{}}`, or pass it as the tuple `(value,)`"
)]
pub trait Arg: Sized + 'static {}

/// The arguments that came are not those that the step declares (semantics of FTN12 §2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    wanted: &'static str,
    given: Cow<'static, str>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the step takes {} and was given {}", self.wanted, self.given)
    }
}

impl std::error::Error for Mismatch {}

trait Tuple: Any {
    fn elements(self: Box<Self>) -> Elements;
    fn len(&self) -> usize;
    fn type_name(&self) -> &'static str;
}

impl Args {
    /// No values.
    #[must_use]
    pub const fn none() -> Self {
        Self(Repr::Empty)
    }

    /// How many values there are, 0 to 4.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Empty => 0,
            Repr::One(_) => 1,
            Repr::Two(..) => 2,
            Repr::Boxed(tuple) => tuple.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Empty)
    }

    /// Restores typed values; the same rules as for the arguments of a step.
    ///
    /// # Errors
    /// [`Mismatch`], see [`Arguments::from_args`].
    pub fn into_typed<A: Arguments>(self) -> Result<A, Mismatch> {
        A::from_args(self)
    }

    /// The types of the values, for messages.
    #[must_use]
    pub fn type_name(&self) -> Cow<'static, str> {
        match &self.0 {
            Repr::Empty => Cow::Borrowed("nothing"),
            Repr::One(value) => Cow::Borrowed(value.type_name()),
            Repr::Two(a, b) => Cow::Owned(format!("({}, {})", a.type_name(), b.type_name())),
            Repr::Boxed(tuple) => Cow::Borrowed(tuple.type_name()),
        }
    }

    fn into_elements(self) -> Elements {
        match self.0 {
            Repr::Empty => Elements::new(),
            Repr::One(value) => Elements::from_iter([value.into_box()]),
            Repr::Two(a, b) => Elements::from_iter([a.into_box(), b.into_box()]),
            Repr::Boxed(tuple) => tuple.elements(),
        }
    }

    /// The tuple itself if it has exactly the type `T`, else the arguments unchanged.
    fn downcast<T: 'static>(self) -> Result<T, Self> {
        let Self(Repr::Boxed(tuple)) = self else { return Err(self) };
        if (*tuple).type_id() != TypeId::of::<T>() {
            return Err(Self(Repr::Boxed(tuple)));
        }
        (tuple as Box<dyn Any>).downcast::<T>().map(|value| *value).map_err(|_| Self::none())
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Args({})", self.type_name())
    }
}

impl SendArgs {
    pub(crate) fn into_args(self) -> Args {
        Args(match self.0 {
            Repr::Empty => Repr::Empty,
            Repr::One(value) => Repr::One(value),
            Repr::Two(a, b) => Repr::Two(a, b),
            Repr::Boxed(tuple) => Repr::Boxed(tuple),
        })
    }
}

/// Takes typed values out of the elements of another type, front to back.
struct Parts {
    elements: smallvec::IntoIter<[Box<dyn Any>; MAX_ARGS]>,
    mismatch: Mismatch,
}

impl Parts {
    #[cold]
    fn of<A>(args: Args) -> Self {
        let mismatch = Mismatch { wanted: type_name::<A>(), given: args.type_name() };
        Self { elements: args.into_elements().into_iter(), mismatch }
    }

    fn take<T: 'static>(&mut self) -> Result<T, Mismatch> {
        let element = self.elements.next().ok_or_else(|| self.mismatch.clone())?;
        convert::element(element).ok_or_else(|| self.mismatch.clone())
    }
}

impl Arguments for Args {
    fn into_args(self) -> Args {
        self
    }

    fn from_args(args: Args) -> Result<Self, Mismatch> {
        Ok(args)
    }
}

impl Arguments for () {
    #[inline]
    fn into_args(self) -> Args {
        Args::none()
    }

    #[inline]
    fn from_args(_: Args) -> Result<Self, Mismatch> {
        Ok(())
    }
}

impl<T: Arg> Arguments for T {
    #[inline]
    fn into_args(self) -> Args {
        (self,).into_args()
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, Mismatch> {
        <(T,)>::from_args(args).map(|(value,)| value)
    }
}

impl<A: 'static> Arguments for (A,) {
    #[inline]
    fn into_args(self) -> Args {
        Args(match Scalar::from_value(self.0) {
            Ok(scalar) => Repr::One(scalar),
            Err(value) => Repr::Boxed(Box::new((value,))),
        })
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, Mismatch> {
        if let Repr::One(scalar) = &args.0
            && let Some(value) = scalar.to_value()
        {
            return Ok((value,));
        }
        args.downcast().or_else(|args| Ok((Parts::of::<A>(args).take()?,)))
    }
}

impl<A: 'static, B: 'static> Arguments for (A, B) {
    #[inline]
    fn into_args(self) -> Args {
        Args(match (Scalar::from_value(self.0), Scalar::from_value(self.1)) {
            (Ok(a), Ok(b)) => Repr::Two(a, b),
            (a, b) => match (Scalar::restore(a), Scalar::restore(b)) {
                (Some(a), Some(b)) => Repr::Boxed(Box::new((a, b))),
                _ => Repr::Empty,
            },
        })
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, Mismatch> {
        if let Repr::Two(a, b) = &args.0
            && let (Some(a), Some(b)) = (a.to_value(), b.to_value())
        {
            return Ok((a, b));
        }
        args.downcast().or_else(|args| {
            let mut parts = Parts::of::<Self>(args);
            Ok((parts.take()?, parts.take()?))
        })
    }
}

impl SendArguments for () {
    fn into_send_args(self) -> SendArgs {
        SendArgs(Repr::Empty)
    }
}

impl<T: Arg + Send> SendArguments for T {
    fn into_send_args(self) -> SendArgs {
        (self,).into_send_args()
    }
}

impl<A: Send + 'static> SendArguments for (A,) {
    fn into_send_args(self) -> SendArgs {
        SendArgs(match Scalar::from_value(self.0) {
            Ok(scalar) => Repr::One(scalar),
            Err(value) => Repr::Boxed(Box::new((value,))),
        })
    }
}

macro_rules! boxed_tuple {
    ($($T:ident $index:tt),+) => {
        impl<$($T: 'static),+> Arguments for ($($T,)+) {
            fn into_args(self) -> Args {
                Args(Repr::Boxed(Box::new(self)))
            }

            fn from_args(args: Args) -> Result<Self, Mismatch> {
                args.downcast().or_else(|args| {
                    let mut parts = Parts::of::<Self>(args);
                    Ok(($(parts.take::<$T>()?,)+))
                })
            }
        }
    };
}

boxed_tuple!(A 0, B 1, C 2);
boxed_tuple!(A 0, B 1, C 2, D 3);

macro_rules! tuple {
    ($count:literal: $($T:ident $index:tt),+) => {
        impl<$($T: 'static),+> Tuple for ($($T,)+) {
            fn elements(self: Box<Self>) -> Elements {
                let tuple = *self;
                Elements::from_iter([$(Box::new(tuple.$index) as Box<dyn Any>),+])
            }

            fn len(&self) -> usize {
                $count
            }

            fn type_name(&self) -> &'static str {
                type_name::<Self>()
            }
        }

        impl<$($T: Send + 'static),+> sealed::Sealed for ($($T,)+) {}
    };
}

tuple!(1: A 0);
tuple!(2: A 0, B 1);
tuple!(3: A 0, B 1, C 2);
tuple!(4: A 0, B 1, C 2, D 3);

macro_rules! send_tuple {
    ($($T:ident),+) => {
        impl<$($T: Send + 'static),+> SendArguments for ($($T,)+) {
            fn into_send_args(self) -> SendArgs {
                SendArgs(Repr::Boxed(Box::new(self)))
            }
        }
    };
}

send_tuple!(A, B);
send_tuple!(A, B, C);
send_tuple!(A, B, C, D);

mod sealed {
    #[expect(unnameable_types, reason = "that is what seals a trait")]
    pub trait Sealed {}
    impl Sealed for () {}
    impl<T: super::Arg + Send> Sealed for T {}
    impl<T: super::ForeignArgs + Send> Sealed for super::Foreign<T> {}
}

macro_rules! arg {
    ($([$($generic:tt)*] $T:ty),+ $(,)?) => { $(impl<$($generic)*> Arg for $T {})+ };
}

arg! {
    [] bool, [] char, [] i8, [] i16, [] i32, [] i64, [] i128, [] isize,
    [] u8, [] u16, [] u32, [] u64, [] u128, [] usize, [] f32, [] f64,
    [] String, [] &'static str, [] Duration, [] std::path::PathBuf, [] crate::Error,
    [T: ToOwned + ?Sized + 'static] Cow<'static, T>,
    [T: 'static, const N: usize] [T; N],
    [T: 'static] Vec<T>, [T: 'static] VecDeque<T>, [T: 'static] Option<T>,
    [T: 'static, E: 'static] Result<T, E>,
    [T: ?Sized + 'static] Box<T>, [T: ?Sized + 'static] Rc<T>, [T: ?Sized + 'static] Arc<T>,
    [K: 'static, V: 'static] BTreeMap<K, V>, [T: 'static] BTreeSet<T>,
    [K: 'static, V: 'static, S: 'static] HashMap<K, V, S>, [T: 'static, S: 'static] HashSet<T, S>,
}

#[cfg(test)]
mod tests;
