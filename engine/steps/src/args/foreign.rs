//! Arguments that come from another technology (FTN12 §2.7.1).

use std::any::{Any, type_name};

use super::convert::Scalar;
use super::erased::{
    Args, ArgsMismatch, Arguments, Elements, MAX_ARGS, Repr, SendArgs, SendArguments, Tuple, sealed,
};

/// Up to four values in the representation of another technology.
///
/// Wrapped in [`Foreign`] they are the arguments or the result of a step. They are not converted
/// between two foreign steps, but for a number alone ([`scalar`](Self::scalar)); for and from steps in
/// Rust they are converted one by one.
pub trait ForeignArgs: Sized + 'static {
    /// How many values there are, at most four; further ones are ignored.
    fn len(&self) -> usize;

    /// Whether there are no values.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes each value, in order, to `to` in its Rust type.
    fn give(self, to: &mut dyn FnMut(Box<dyn Any>));

    /// Takes values of any Rust types.
    fn take(values: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self;

    /// The only value, if it is a number that [`of_scalar`](Self::of_scalar) restores without a loss: it
    /// travels without an allocation. By default none does.
    fn scalar(&self) -> Option<Scalar> {
        None
    }

    /// The values that consist of this number; `None` has it [taken](Self::take) as any other value.
    #[must_use]
    fn of_scalar(scalar: Scalar) -> Option<Self> {
        let _ = scalar;
        None
    }
}

/// The arguments of a foreign step, which takes any values (FTN12 §2.7.1).
#[derive(Clone, Debug, Default)]
pub struct Foreign<T>(pub T);

impl<T: ForeignArgs> Tuple for Foreign<T> {
    fn elements(self: Box<Self>) -> Elements {
        let mut elements = Elements::new();
        self.0.give(&mut |value| elements.push(value));
        elements.truncate(MAX_ARGS);
        elements
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }
}

impl<T: ForeignArgs> Arguments for Foreign<T> {
    #[inline]
    fn into_args(self) -> Args {
        Args(match self.0.scalar() {
            Some(scalar) => Repr::One(scalar),
            None if self.0.is_empty() => Repr::Empty,
            None => Repr::Boxed(Box::new(self)),
        })
    }

    #[inline]
    fn from_args(args: Args) -> Result<Self, ArgsMismatch> {
        if let Repr::One(scalar) = args.0
            && let Some(values) = T::of_scalar(scalar)
        {
            return Ok(Self(values));
        }
        let taken = |args: Args| Self(T::take(&mut args.into_elements().into_iter()));
        Ok(args.downcast().unwrap_or_else(taken))
    }
}

impl<T: ForeignArgs + Send> sealed::Sealed for Foreign<T> {}

impl<T: ForeignArgs + Send> SendArguments for Foreign<T> {
    fn into_send_args(self) -> SendArgs {
        SendArgs(match self.0.scalar() {
            Some(scalar) => Repr::One(scalar),
            None if self.0.is_empty() => Repr::Empty,
            None => Repr::Boxed(Box::new(self)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as text.
    #[derive(Debug, PartialEq)]
    struct Texts(Vec<String>);

    impl ForeignArgs for Texts {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn give(self, to: &mut dyn FnMut(Box<dyn Any>)) {
            for text in self.0 {
                match text.parse::<i64>() {
                    Ok(number) => to(Box::new(number)),
                    Err(_) => to(Box::new(text)),
                }
            }
        }

        fn take(values: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self {
            let text = |value: Box<dyn Any>| value.downcast_ref::<u32>().map(u32::to_string);
            Self(values.map(|value| text(value).unwrap_or_default()).collect())
        }
    }

    /// A number, which nothing has to box.
    #[derive(Debug, PartialEq)]
    struct Number(Scalar);

    impl ForeignArgs for Number {
        fn len(&self) -> usize {
            1
        }

        fn give(self, _: &mut dyn FnMut(Box<dyn Any>)) {
            unreachable!("it travels as a scalar");
        }

        fn take(_: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self {
            unreachable!("as above");
        }

        fn scalar(&self) -> Option<Scalar> {
            Some(self.0)
        }

        fn of_scalar(scalar: Scalar) -> Option<Self> {
            Some(Self(scalar))
        }
    }

    #[test]
    fn a_number_travels_between_foreign_steps_and_ours_without_a_box() {
        let number = |scalar| Foreign(Number(scalar));
        let into_rust = number(Scalar::I16(-7)).into_args().into_typed::<i16>();
        assert_eq!(into_rust, Ok(-7));
        let from_rust = 7u8.into_args().into_typed::<Foreign<Number>>().map(|args| args.0);
        assert_eq!(from_rust, Ok(Number(Scalar::U8(7))));
        let sent = number(Scalar::F32(0.5)).into_send_args().into_args();
        assert_eq!(
            sent.into_typed::<Foreign<Number>>().map(|args| args.0),
            Ok(Number(Scalar::F32(0.5)))
        );
    }

    fn texts(texts: &[&str]) -> Args {
        Foreign(Texts(texts.iter().map(ToString::to_string).collect())).into_args()
    }

    #[test]
    fn values_are_converted_one_by_one_for_a_step_in_rust() {
        assert_eq!(texts(&["7", "x"]).into_typed::<(u8, String)>(), Ok((7, "x".to_owned())));
        assert_eq!(texts(&["7", "x"]).into_typed::<i64>(), Ok(7), "further values are ignored");
        assert!(texts(&["300"]).into_typed::<u8>().is_err());
        assert!(texts(&[]).is_empty());
    }

    #[test]
    fn a_foreign_step_takes_its_own_values_unchanged_and_any_others_converted() {
        let own = texts(&["x", "7"]).into_typed::<Foreign<Texts>>().expect("it takes anything");
        assert_eq!(own.0, Texts(vec!["x".to_owned(), "7".to_owned()]));
        let others = (7u32, 8u32).into_args().into_typed::<Foreign<Texts>>();
        assert_eq!(
            others.expect("it takes anything").0,
            Texts(vec!["7".to_owned(), "8".to_owned()])
        );
    }
}
