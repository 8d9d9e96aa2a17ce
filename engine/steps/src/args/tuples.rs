//! The types that steps take and return (FTN12 §2.2.2): values, and tuples of them.

use std::any::{Any, type_name};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::convert::{Pair, Scalar};
use super::erased::{
    Arg, Args, ArgsMismatch, Arguments, ElementReader, Elements, Repr, SendArgs, SendArguments,
    Tuple, sealed,
};
use crate::error::Error;

impl sealed::Sealed for () {}
impl<T: Arg + Send> sealed::Sealed for T {}

impl Arguments for Args {
    fn into_args(self) -> Args {
        self
    }

    fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
        Ok(args)
    }
}

impl Arguments for () {
    #[inline]
    fn into_args(self) -> Args {
        Args::none()
    }

    #[inline]
    fn from_args(_: Args) -> Result<Self, ArgsMismatch> {
        Ok(())
    }
}

impl<T: Arg> Arguments for T {
    #[inline]
    fn into_args(self) -> Args {
        (self,).into_args()
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
        <(T,)>::from_args(args).map(|(value,)| value)
    }

    #[inline]
    fn borrow(args: &Args) -> Option<&Self> {
        args.borrow().map(|(value,)| value)
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
    fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
        if let Repr::One(scalar) = &args.0
            && let Some(value) = scalar.to_value()
        {
            return Ok((value,));
        }
        one_of_boxed(args)
    }

    #[inline]
    fn borrow(args: &Args) -> Option<&Self> {
        args.borrow()
    }
}

/// The value that is not a number, or is one of another type.
#[inline(never)]
fn one_of_boxed<A: 'static>(args: Args) -> Result<(A,), ArgsMismatch> {
    args.downcast().or_else(|args| Ok((ElementReader::of::<A>(args).take()?,)))
}

impl<A: 'static, B: 'static> Arguments for (A, B) {
    #[inline]
    fn into_args(self) -> Args {
        Args(match (Scalar::from_value(self.0), Scalar::from_value(self.1)) {
            (Ok(a), Ok(b)) => Repr::Two(Pair::new(a, b)),
            (a, b) => match (Scalar::restore(a), Scalar::restore(b)) {
                (Some(a), Some(b)) => Repr::Boxed(Box::new((a, b))),
                _ => Repr::Empty,
            },
        })
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
        if let Repr::Two(pair) = &args.0
            && let (a, b) = pair.split()
            && let (Some(a), Some(b)) = (a.to_value(), b.to_value())
        {
            return Ok((a, b));
        }
        args.downcast().or_else(|args| {
            let mut parts = ElementReader::of::<Self>(args);
            Ok((parts.take()?, parts.take()?))
        })
    }

    #[inline]
    fn borrow(args: &Args) -> Option<&Self> {
        args.borrow()
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

            fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
                args.downcast().or_else(|args| {
                    let mut parts = ElementReader::of::<Self>(args);
                    Ok(($(parts.take::<$T>()?,)+))
                })
            }

            fn borrow(args: &Args) -> Option<&Self> {
                args.borrow()
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

macro_rules! arg {
    ($([$($generic:tt)*] $T:ty),+ $(,)?) => { $(impl<$($generic)*> Arg for $T {})+ };
}

arg! {
    [] bool, [] char, [] i8, [] i16, [] i32, [] i64, [] i128, [] isize,
    [] u8, [] u16, [] u32, [] u64, [] u128, [] usize, [] f32, [] f64,
    [] String, [] &'static str, [] Duration, [] PathBuf, [] Error,
    [T: ToOwned + ?Sized + 'static] Cow<'static, T>,
    [T: 'static, const N: usize] [T; N],
    [T: 'static] Vec<T>, [T: 'static] VecDeque<T>, [T: 'static] Option<T>,
    [T: 'static, E: 'static] Result<T, E>,
    [T: ?Sized + 'static] Box<T>, [T: ?Sized + 'static] Rc<T>, [T: ?Sized + 'static] Arc<T>,
    [K: 'static, V: 'static] BTreeMap<K, V>, [T: 'static] BTreeSet<T>,
    [K: 'static, V: 'static, S: 'static] HashMap<K, V, S>, [T: 'static, S: 'static] HashSet<T, S>,
}
