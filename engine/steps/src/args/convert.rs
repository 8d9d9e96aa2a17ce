//! Conversions between values that lose nothing, chosen when types differ.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A number that travels without an allocation.
#[derive(Clone, Copy)]
pub(crate) enum Scalar {
    Bool(bool),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    Usize(usize),
    F64(f64),
}

/// Applies a macro to each pair of a scalar's variant and its type.
macro_rules! each_scalar {
    ($apply:ident) => {
        $apply!(Bool bool, I32 i32, I64 i64, U32 u32, U64 u64, Usize usize, F64 f64)
    };
}

impl Scalar {
    /// The value as a scalar if it is one, else the value unchanged.
    ///
    /// The type checks are decided at compile time, one copy of this per type.
    #[inline]
    pub(crate) fn from_value<T: 'static>(value: T) -> Result<Self, T> {
        let mut slot = Some(value);
        let any: &mut dyn Any = &mut slot;
        macro_rules! try_each {
            ($($variant:ident $type:ty),+) => { $(
                if let Some(&mut Some(value)) = any.downcast_mut::<Option<$type>>() {
                    return Ok(Self::$variant(value));
                }
            )+ };
        }
        each_scalar!(try_each);
        match slot {
            Some(value) => Err(value),
            None => unreachable!("nothing took the value"),
        }
    }

    /// Gives back a value that [`from_value`](Self::from_value) may have taken.
    #[inline]
    pub(crate) fn restore<T: 'static>(taken: Result<Self, T>) -> Option<T> {
        match taken {
            Ok(scalar) => scalar.to_value(),
            Err(value) => Some(value),
        }
    }

    /// The value, if `T` is exactly its type.
    #[inline]
    pub(crate) fn to_value<T: 'static>(self) -> Option<T> {
        let mut slot: Option<T> = None;
        let any: &mut dyn Any = &mut slot;
        macro_rules! fill {
            ($($variant:ident $type:ty),+) => {
                match self { $(
                    Self::$variant(value) => {
                        if let Some(slot) = any.downcast_mut::<Option<$type>>() {
                            *slot = Some(value);
                        }
                    }
                )+ }
            };
        }
        each_scalar!(fill);
        slot
    }

    pub(crate) fn into_box(self) -> Box<dyn Any> {
        macro_rules! boxed {
            ($($variant:ident $type:ty),+) => {
                match self { $(Self::$variant(value) => Box::new(value),)+ }
            };
        }
        each_scalar!(boxed)
    }

    pub(crate) const fn type_name(self) -> &'static str {
        macro_rules! name {
            ($($variant:ident $type:ident),+) => {
                match self { $(Self::$variant(_) => stringify!($type),)+ }
            };
        }
        each_scalar!(name)
    }
}

/// A number of any standard type, wide enough to compare.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

/// The element as a `T`: itself, or a number or text that converts without loss.
pub(super) fn element<T: 'static>(element: Box<dyn Any>) -> Option<T> {
    let element = match element.downcast::<T>() {
        Ok(value) => return Some(*value),
        Err(element) => element,
    };
    let mut slot: Option<T> = None;
    match read_number(&*element) {
        Some(number) => write_number(number, &mut slot),
        None => write_text(read_text(element)?, &mut slot),
    }
    slot
}

fn read_number(value: &dyn Any) -> Option<Number> {
    macro_rules! ints {
        ($($type:ty),+) => { $(
            if let Some(value) = value.downcast_ref::<$type>() {
                return i128::try_from(*value).ok().map(Number::Int);
            }
        )+ };
    }
    ints!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
    if let Some(value) = value.downcast_ref::<f32>() {
        return Some(Number::Float(f64::from(*value)));
    }
    value.downcast_ref::<f64>().map(|value| Number::Float(*value))
}

fn write_number(number: Number, slot: &mut dyn Any) {
    match number {
        Number::Int(value) => {
            macro_rules! ints {
                ($($type:ty),+) => { $(
                    if let Some(slot) = slot.downcast_mut::<Option<$type>>() {
                        *slot = <$type>::try_from(value).ok();
                        return;
                    }
                )+ };
            }
            ints!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
            if let Some(slot) = slot.downcast_mut::<Option<f64>>() {
                // every integer of 32 bits is a float of 64 bits
                *slot = i32::try_from(value)
                    .map(f64::from)
                    .or_else(|_| u32::try_from(value).map(f64::from))
                    .ok();
            }
        }
        Number::Float(value) => {
            if let Some(slot) = slot.downcast_mut::<Option<f64>>() {
                *slot = Some(value);
            }
        }
    }
}

fn read_text(value: Box<dyn Any>) -> Option<Cow<'static, str>> {
    let value = match value.downcast::<&'static str>() {
        Ok(text) => return Some(Cow::Borrowed(*text)),
        Err(value) => value,
    };
    let value = match value.downcast::<String>() {
        Ok(text) => return Some(Cow::Owned(*text)),
        Err(value) => value,
    };
    value.downcast::<Cow<'static, str>>().ok().map(|text| *text)
}

fn write_text(text: Cow<'static, str>, slot: &mut dyn Any) {
    if let Some(slot) = slot.downcast_mut::<Option<String>>() {
        *slot = Some(text.into_owned());
    } else if let Some(slot) = slot.downcast_mut::<Option<Cow<'static, str>>>() {
        *slot = Some(text);
    } else if let Some(slot) = slot.downcast_mut::<Option<Box<str>>>() {
        *slot = Some(text.into());
    } else if let Some(slot) = slot.downcast_mut::<Option<Arc<str>>>() {
        *slot = Some(text.into());
    } else if let Some(slot) = slot.downcast_mut::<Option<Rc<str>>>() {
        *slot = Some(text.into());
    }
}
