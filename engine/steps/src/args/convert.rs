//! Conversions between values that lose nothing, chosen when types differ.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A number or a boolean, which travels from step to step without an allocation (FTN12 §2.7.1); see
/// [`ForeignArgs::scalar`](super::ForeignArgs::scalar).
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the types of Rust")]
#[expect(clippy::exhaustive_enums, reason = "another technology converts each of them")]
pub enum Scalar {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    Usize(usize),
    F32(f32),
    F64(f64),
}

/// Two scalars. Their types lie side by side, so that [`Args`](super::Args) take 24 bytes and not 32:
/// every flow and every message has room for some.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    kinds: [ScalarKind; 2],
    bits: [u64; 2],
}

/// The type of a scalar.
#[derive(Clone, Copy)]
enum ScalarKind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Usize,
    F32,
    F64,
}

impl Pair {
    #[inline]
    pub(crate) fn new(a: Scalar, b: Scalar) -> Self {
        let ((kind, bits), (other_kind, other_bits)) = (a.to_bits(), b.to_bits());
        Self { kinds: [kind, other_kind], bits: [bits, other_bits] }
    }

    #[inline]
    pub(crate) fn split(self) -> (Scalar, Scalar) {
        let ([a, b], [bits, other_bits]) = (self.kinds, self.bits);
        (Scalar::from_bits(a, bits), Scalar::from_bits(b, other_bits))
    }
}

/// Applies a macro to each pair of a scalar's variant and its type.
macro_rules! each_scalar {
    ($apply:ident) => {
        $apply!(
            Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            Usize usize, F32 f32, F64 f64
        )
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

    /// Returns a value that [`from_value`](Self::from_value) may have taken to its owner.
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

    #[inline]
    fn to_bits(self) -> (ScalarKind, u64) {
        match self {
            Self::Bool(value) => (ScalarKind::Bool, u64::from(value)),
            Self::I8(value) => (ScalarKind::I8, u64::from(value.cast_unsigned())),
            Self::I16(value) => (ScalarKind::I16, u64::from(value.cast_unsigned())),
            Self::I32(value) => (ScalarKind::I32, u64::from(value.cast_unsigned())),
            Self::I64(value) => (ScalarKind::I64, value.cast_unsigned()),
            Self::U8(value) => (ScalarKind::U8, u64::from(value)),
            Self::U16(value) => (ScalarKind::U16, u64::from(value)),
            Self::U32(value) => (ScalarKind::U32, u64::from(value)),
            Self::U64(value) => (ScalarKind::U64, value),
            Self::Usize(value) => (ScalarKind::Usize, value as u64),
            Self::F32(value) => (ScalarKind::F32, u64::from(value.to_bits())),
            Self::F64(value) => (ScalarKind::F64, value.to_bits()),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the bits are those of this type")]
    fn from_bits(kind: ScalarKind, bits: u64) -> Self {
        match kind {
            ScalarKind::Bool => Self::Bool(bits != 0),
            ScalarKind::I8 => Self::I8((bits as u8).cast_signed()),
            ScalarKind::I16 => Self::I16((bits as u16).cast_signed()),
            ScalarKind::I32 => Self::I32((bits as u32).cast_signed()),
            ScalarKind::I64 => Self::I64(bits.cast_signed()),
            ScalarKind::U8 => Self::U8(bits as u8),
            ScalarKind::U16 => Self::U16(bits as u16),
            ScalarKind::U32 => Self::U32(bits as u32),
            ScalarKind::U64 => Self::U64(bits),
            ScalarKind::Usize => Self::Usize(bits as usize),
            ScalarKind::F32 => Self::F32(f32::from_bits(bits as u32)),
            ScalarKind::F64 => Self::F64(f64::from_bits(bits)),
        }
    }

    /// A copy of a value that is a scalar.
    #[must_use]
    pub fn read(value: &dyn Any) -> Option<Self> {
        macro_rules! read {
            ($($variant:ident $type:ty),+) => { $(
                if let Some(value) = value.downcast_ref::<$type>() {
                    return Some(Self::$variant(*value));
                }
            )+ };
        }
        each_scalar!(read);
        None
    }

    /// The value in a box, as its own type.
    #[must_use]
    pub fn into_box(self) -> Box<dyn Any> {
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
