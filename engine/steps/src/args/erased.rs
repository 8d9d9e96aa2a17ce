//! Erased arguments (FTN12 §2.2.2): the values that travel from one step to the next.

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::{fmt, mem};

use smallvec::SmallVec;

use super::convert::{self, Pair, Scalar};

/// The most values that one `success` carries (FTN12 §2.7.2).
pub const MAX_ARGS: usize = 4;

pub(super) type Elements = SmallVec<[Box<dyn Any>; MAX_ARGS]>;

/// Zero to four result values of a step, erased.
///
/// A step that declares `Args` takes any values: generic code and interpreters use it.
#[derive(Default)]
pub struct Args(pub(super) Repr<Box<dyn Tuple>>);

/// [`Args`] that may change threads; made by [`SendArguments`] only.
#[doc(hidden)]
#[derive(Default)]
#[expect(missing_debug_implementations, unnameable_types, reason = "opaque on purpose")]
pub struct SendArgs(pub(super) Repr<Box<dyn Tuple + Send>>);

/// One or two numbers travel without an allocation.
#[derive(Default)]
pub(super) enum Repr<B> {
    #[default]
    Empty,
    One(Scalar),
    Two(Pair),
    Boxed(B),
}

/// Types that a step can take and return: `()`, one value, and tuples of one to four values.
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
    /// [`ArgsMismatch`] if `args` holds fewer values, or values of types without a lossless
    /// conversion.
    fn from_args(args: Args) -> Result<Self, ArgsMismatch>;

    #[doc(hidden)]
    #[must_use]
    fn borrow(_: &Args) -> Option<&Self> {
        None
    }
}

/// [`Arguments`] that may change threads: the values that a [`Completion`](crate::Completion)
/// carries.
///
/// Implemented for all arguments whose values are `Send`, except the erased [`Args`].
pub trait SendArguments: Arguments + Send + sealed::Sealed {
    #[doc(hidden)]
    fn into_send_args(self) -> SendArgs;
}

/// A single type that a step can take and return without a tuple around it.
///
/// Implemented for the usual standard types; one line makes it work for a type of your own:
/// ```
/// struct Order { id: u64 }
/// impl asyncsteps_core::Arg for Order {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the argument or result of a step",
    note = "write `impl asyncsteps::Arg for {Self} {{}}`, or pass it as the tuple `(value,)`"
)]
pub trait Arg: Sized + 'static {}

/// The values that a step received differ from those that it declares (FTN12 §2.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsMismatch {
    /// The types that the step declares.
    wanted: &'static str,
    /// The types of the values that came.
    given: Cow<'static, str>,
}

impl fmt::Display for ArgsMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the step takes {} and was given {}", self.wanted, self.given)
    }
}

impl std::error::Error for ArgsMismatch {}

pub(super) trait Tuple: Any {
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
            Repr::Two(_) => 2,
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
    /// [`ArgsMismatch`], see [`Arguments::from_args`].
    pub fn into_typed<A: Arguments>(self) -> Result<A, ArgsMismatch> {
        A::from_args(self)
    }

    /// The types of the values, for messages.
    #[must_use]
    pub fn type_name(&self) -> Cow<'static, str> {
        match &self.0 {
            Repr::Empty => Cow::Borrowed("nothing"),
            Repr::One(value) => Cow::Borrowed(value.type_name()),
            Repr::Two(pair) => {
                let (a, b) = pair.split();
                Cow::Owned(format!("({}, {})", a.type_name(), b.type_name()))
            }
            Repr::Boxed(tuple) => Cow::Borrowed(tuple.type_name()),
        }
    }

    /// Lends the values to a closure; they are not moved if they have exactly these types.
    ///
    /// # Errors
    /// [`ArgsMismatch`], see [`Arguments::from_args`].
    pub(crate) fn lend<A: Arguments, R>(
        &mut self,
        borrow: impl FnOnce(&A) -> R,
    ) -> Result<R, ArgsMismatch> {
        if let Some(values) = A::borrow(self) {
            return Ok(borrow(values));
        }
        let values = A::from_args(mem::take(self))?;
        let result = borrow(&values);
        *self = values.into_args();
        Ok(result)
    }

    /// A copy of the values, and the values.
    ///
    /// # Errors
    /// [`ArgsMismatch`], see [`Arguments::from_args`].
    pub(crate) fn copied<A: Arguments + Clone>(self) -> Result<(Self, Self), ArgsMismatch> {
        if let Some(values) = A::borrow(&self) {
            return Ok((values.clone().into_args(), self));
        }
        let values = A::from_args(self)?;
        Ok((values.clone().into_args(), values.into_args()))
    }

    /// The tuple, if it is in a box and has exactly the type `T`.
    #[inline]
    pub(super) fn borrow<T: 'static>(&self) -> Option<&T> {
        let Repr::Boxed(tuple) = &self.0 else { return None };
        let tuple: &dyn Any = &**tuple;
        tuple.downcast_ref()
    }

    pub(super) fn into_elements(self) -> Elements {
        match self.0 {
            Repr::Empty => Elements::new(),
            Repr::One(value) => Elements::from_iter([value.into_box()]),
            Repr::Two(pair) => {
                let (a, b) = pair.split();
                Elements::from_iter([a.into_box(), b.into_box()])
            }
            Repr::Boxed(tuple) => tuple.elements(),
        }
    }

    /// The tuple itself if it has exactly the type `T`, else the arguments unchanged.
    #[inline]
    pub(super) fn downcast<T: 'static>(self) -> Result<T, Self> {
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
            Repr::Two(pair) => Repr::Two(pair),
            Repr::Boxed(tuple) => Repr::Boxed(tuple),
        })
    }
}

/// Takes typed values out of the elements of another type, front to back.
pub(super) struct ElementReader {
    elements: smallvec::IntoIter<[Box<dyn Any>; MAX_ARGS]>,
    mismatch: ArgsMismatch,
}

impl ElementReader {
    #[cold]
    pub(super) fn of<A>(args: Args) -> Self {
        let mismatch = ArgsMismatch { wanted: type_name::<A>(), given: args.type_name() };
        Self { elements: args.into_elements().into_iter(), mismatch }
    }

    pub(super) fn take<T: 'static>(&mut self) -> Result<T, ArgsMismatch> {
        let element = self.elements.next().ok_or_else(|| self.mismatch.clone())?;
        convert::element(element).ok_or_else(|| self.mismatch.clone())
    }
}

pub(super) mod sealed {
    #[expect(unnameable_types, reason = "that is what seals a trait")]
    pub trait Sealed {}
}
