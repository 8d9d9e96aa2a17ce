//! Owned binary values, and their conversions to and from types of Rust (FTN12 §2.7.1).
#![expect(unsafe_code, reason = "values of other technologies are reached through pointers")]

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::rc::Rc;
use std::sync::Arc;
use std::{fmt, mem, ptr, slice};

use asyncsteps_core::{Arg, ForeignArgs, Scalar};

use crate::abi::flags::{
    ARRAY, BASE_MASK, BOOL, CUSTOM_OBJECT, DOUBLE, FLOAT, INT8, INT16, INT32, INT64, STRING,
    STRING16, STRING32, UINT8, UINT16, UINT32, UINT64,
};
use crate::abi::{FutoInArgs, FutoInBinaryValue, FutoInData, FutoInType};

/// A binary value that is released when it is dropped. A step in Rust gets one for a value without a
/// type in Rust, such as a custom object.
#[repr(transparent)]
#[derive(Debug)]
pub struct Value(FutoInBinaryValue);

impl Arg for Value {}

/// The arguments or the result of a foreign step: four values, each of which may be none.
#[repr(transparent)]
#[derive(Debug)]
pub struct Values([Value; 4]);

// SAFETY: a call of `success` from another thread hands the values to the thread of the loop and so
// allows their cleanup there (FTN12 §2.2.2)
unsafe impl Send for Values {}

/// A value has flags that FTN12 does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownFlags(pub(crate) u8);

impl fmt::Display for UnknownFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value with the unknown flags {:#04x}", self.0)
    }
}

/// Types of values without cleanup, by their flags.
static PLAIN: [FutoInType; 16] = types(0, false);
/// Types of single values that own a boxed value of Rust.
static OWNED: [FutoInType; 16] = types(0, true);
/// Types of arrays that own a `Vec`.
static OWNED_ARRAY: [FutoInType; 16] = types(ARRAY, true);

const fn types(array: u8, owned: bool) -> [FutoInType; 16] {
    let mut types = [const { FutoInType { flags: 0, cleanup: None } }; 16];
    let mut base = 0u8;
    while base < 16 {
        types[base as usize].flags = base | array;
        if owned {
            types[base as usize].cleanup = Some(drop_owned);
        }
        base += 1;
    }
    types
}

/// Applies a macro to the types whose `Vec` is an array.
macro_rules! of_arrays {
    ($apply:ident) => {
        $apply!(
            bool: BOOL, i8: INT8, i16: INT16, i32: INT32, i64: INT64, isize: INT64, u8: UINT8,
            u16: UINT16, u32: UINT32, u64: UINT64, usize: UINT64, f32: FLOAT, f64: DOUBLE
        );
    };
}

/// The cleanup of values that own a boxed value of Rust.
unsafe extern "C" fn drop_owned(value: *mut FutoInBinaryValue) {
    // SAFETY: FTN12 §2.7.1 passes the value that is to be released, or nothing at all
    let Some(value) = (unsafe { value.as_mut() }) else { return };
    let owned = mem::replace(&mut value.custom_data, ptr::null_mut());
    if owned.is_null() {
        return;
    }
    // SAFETY: only `Value::owning` makes values of the types with this cleanup; `custom_data` is
    // the box that it made; it was just taken away, so that this happens once
    let owned = unsafe { Box::from_raw(owned.cast::<Box<dyn Any>>()) };
    crate::guard::contained("a destructor", || drop(owned));
}

impl Value {
    /// No value.
    pub const NONE: Self = Self(FutoInBinaryValue::NONE);

    /// Takes ownership of a value.
    ///
    /// # Safety
    /// `value` follows FTN12 §2.7.1, and is released only through the result.
    #[must_use]
    pub const unsafe fn from_raw(value: FutoInBinaryValue) -> Self {
        Self(value)
    }

    /// Passes the ownership of the value on. Its new owner has to release it.
    #[must_use]
    pub fn into_raw(self) -> FutoInBinaryValue {
        let value = self.0;
        mem::forget(self);
        value
    }

    /// Whether it is no value.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.kind.is_null()
    }

    /// Its type, see [`flags`](crate::abi::flags); 0 for no value.
    #[must_use]
    pub fn flags(&self) -> u8 {
        // SAFETY: the type of a value is null or points to a type that outlives it (FTN12 §2.7.1)
        unsafe { self.0.kind.as_ref() }.map_or(0, |kind| kind.flags)
    }

    /// The value in the form of the binary interface.
    #[must_use]
    pub fn as_raw(&self) -> &FutoInBinaryValue {
        &self.0
    }

    fn check(&self) -> Result<(), UnknownFlags> {
        let flags = self.flags();
        let known = flags & !(ARRAY | BASE_MASK) == 0 && flags & BASE_MASK != 0;
        if self.is_none() || known { Ok(()) } else { Err(UnknownFlags(flags)) }
    }

    fn plain<const N: usize>(base: u8, bytes: [u8; N]) -> Self {
        let kind = &PLAIN[usize::from(base)];
        Self(FutoInBinaryValue { kind, data: FutoInData::of(bytes), ..FutoInBinaryValue::NONE })
    }

    /// A value that owns `owner`; `data` points into it.
    fn owning(
        kind: &'static FutoInType,
        data: FutoInData,
        length: usize,
        owner: Box<dyn Any>,
    ) -> Self {
        let custom_data = Box::into_raw(Box::new(owner)).cast::<c_void>();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Self(FutoInBinaryValue { kind, data, custom_data, length })
    }

    /// Text with a NUL at its end.
    fn text(text: &str) -> Self {
        // unlike a box, a vector may move while a pointer into it exists
        let bytes: Vec<u8> = text.bytes().chain([0]).collect();
        let data = FutoInData::of_pointer(bytes.as_ptr());
        Self::owning(&OWNED[usize::from(STRING)], data, text.len(), Box::new(bytes))
    }

    fn array<T: 'static>(base: u8, values: Vec<T>) -> Self {
        let (data, length) = (FutoInData::of_pointer(values.as_ptr()), values.len());
        Self::owning(&OWNED_ARRAY[usize::from(base)], data, length, Box::new(values))
    }

    fn object(value: Box<dyn Any>) -> Self {
        let mut object =
            Self::owning(&OWNED[usize::from(CUSTOM_OBJECT)], FutoInData::default(), 0, value);
        object.0.data = FutoInData::of_pointer(object.0.custom_data);
        object
    }

    /// The boxed value of Rust, if this is one of our types that keep it unchanged.
    fn take_owned(&mut self) -> Option<Box<dyn Any>> {
        let own = |types: &'static [FutoInType]| types.as_ptr_range().contains(&self.0.kind);
        let is_object = ptr::eq(self.0.kind, &OWNED[usize::from(CUSTOM_OBJECT)]);
        if self.0.custom_data.is_null() || !(is_object || own(&OWNED_ARRAY)) {
            return None;
        }
        let owned = mem::replace(&mut self.0.custom_data, ptr::null_mut());
        // SAFETY: as in `drop_owned`
        Some(*unsafe { Box::from_raw(owned.cast::<Box<dyn Any>>()) })
    }

    /// The value, if it is a number and nothing else: it has no cleanup, no data for one and no length. Only the
    /// address of its type is not kept.
    #[inline]
    fn scalar(&self) -> Option<Scalar> {
        // SAFETY: as in `flags`
        let kind = unsafe { self.0.kind.as_ref() }?;
        let is_plain = kind.cleanup.is_none() && self.0.custom_data.is_null() && self.0.length == 0;
        let is_bool = kind.flags != BOOL || self.0.data.bytes::<1>()[0] <= 1;
        if is_plain && is_bool { self.number() } else { None }
    }

    /// The number that it is, whatever comes with it.
    #[inline]
    fn number(&self) -> Option<Scalar> {
        let data = self.0.data;
        Some(match self.flags() {
            BOOL => Scalar::Bool(data.bytes::<1>() != [0]),
            INT8 => Scalar::I8(i8::from_ne_bytes(data.bytes())),
            INT16 => Scalar::I16(i16::from_ne_bytes(data.bytes())),
            INT32 => Scalar::I32(i32::from_ne_bytes(data.bytes())),
            INT64 => Scalar::I64(i64::from_ne_bytes(data.bytes())),
            UINT8 => Scalar::U8(u8::from_ne_bytes(data.bytes())),
            UINT16 => Scalar::U16(u16::from_ne_bytes(data.bytes())),
            UINT32 => Scalar::U32(u32::from_ne_bytes(data.bytes())),
            UINT64 => Scalar::U64(u64::from_ne_bytes(data.bytes())),
            FLOAT => Scalar::F32(f32::from_ne_bytes(data.bytes())),
            DOUBLE => Scalar::F64(f64::from_ne_bytes(data.bytes())),
            _ => return None,
        })
    }

    #[inline]
    fn of_scalar(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Bool(value) => Self::plain(BOOL, [u8::from(value)]),
            Scalar::I8(value) => Self::plain(INT8, value.to_ne_bytes()),
            Scalar::I16(value) => Self::plain(INT16, value.to_ne_bytes()),
            Scalar::I32(value) => Self::plain(INT32, value.to_ne_bytes()),
            Scalar::I64(value) => Self::plain(INT64, value.to_ne_bytes()),
            Scalar::U8(value) => Self::plain(UINT8, value.to_ne_bytes()),
            Scalar::U16(value) => Self::plain(UINT16, value.to_ne_bytes()),
            Scalar::U32(value) => Self::plain(UINT32, value.to_ne_bytes()),
            Scalar::U64(value) => Self::plain(UINT64, value.to_ne_bytes()),
            Scalar::Usize(value) => Self::plain(UINT64, (value as u64).to_ne_bytes()),
            Scalar::F32(value) => Self::plain(FLOAT, value.to_ne_bytes()),
            Scalar::F64(value) => Self::plain(DOUBLE, value.to_ne_bytes()),
        }
    }

    fn from_any(value: Box<dyn Any>) -> Self {
        let value = match value.downcast::<Self>() {
            Ok(value) => return *value,
            Err(value) => value,
        };
        Self::copied(&*value).unwrap_or_else(|| Self::from_array(value))
    }

    /// A copy of a number, a text, or nothing; `None` for other types.
    fn copied(value: &dyn Any) -> Option<Self> {
        if let Some(scalar) = Scalar::read(value) {
            return Some(Self::of_scalar(scalar));
        }
        if let Some(value) = value.downcast_ref::<isize>() {
            return Some(Self::plain(INT64, (*value as i64).to_ne_bytes()));
        }
        if let Some(value) = value.downcast_ref::<char>() {
            return Some(Self::plain(UINT32, u32::from(*value).to_ne_bytes()));
        }
        if value.is::<()>() {
            return Some(Self::NONE);
        }
        macro_rules! texts {
            ($($type:ty),+) => { $(
                if let Some(text) = value.downcast_ref::<$type>() {
                    return Some(Self::text(text));
                }
            )+ };
        }
        texts!(String, &'static str, Cow<'static, str>, Box<str>, Arc<str>, Rc<str>);
        None
    }

    fn from_array(value: Box<dyn Any>) -> Self {
        let mut value = value;
        macro_rules! arrays {
            ($($type:ty: $base:expr),+) => { $(
                value = match value.downcast::<Vec<$type>>() {
                    Ok(array) => return Self::array($base, *array),
                    Err(value) => value,
                };
            )+ };
        }
        of_arrays!(arrays);
        Self::object(value)
    }

    /// A value for one of Rust that stays where it is: a copy, or a custom object with its address.
    pub(crate) fn seen(value: &dyn Any) -> Self {
        if let Some(copy) = Self::copied(value) {
            return copy;
        }
        macro_rules! arrays {
            ($($type:ty: $base:expr),+) => { $(
                if let Some(array) = value.downcast_ref::<Vec<$type>>() {
                    return Self::array($base, array.clone());
                }
            )+ };
        }
        of_arrays!(arrays);
        let data = FutoInData::of_pointer(ptr::from_ref(value).cast::<c_void>());
        let kind = &PLAIN[usize::from(CUSTOM_OBJECT)];
        Self(FutoInBinaryValue { kind, data, ..FutoInBinaryValue::NONE })
    }

    /// A pointer to it for foreign code.
    pub(crate) fn as_object(&self) -> *mut c_void {
        ptr::from_ref(&self.0).cast_mut().cast()
    }

    /// The value in a type of Rust; itself if there is none.
    fn into_any(mut self) -> Box<dyn Any> {
        if let Some(owned) = self.take_owned() {
            return owned;
        }
        if let Some(number) = self.number() {
            return number.into_box();
        }
        match self.flags() {
            0 => Box::new(()),
            STRING | STRING16 | STRING32 => match self.read_text() {
                Some(text) => Box::new(text),
                None => Box::new(self),
            },
            flags if flags & ARRAY != 0 => self.read_array().unwrap_or_else(|| Box::new(self)),
            _ => Box::new(self),
        }
    }

    /// A string; `None` if it is null or not Unicode.
    fn read_text(&self) -> Option<String> {
        let p: *const c_void = self.0.data.pointer();
        if p.is_null() {
            return None;
        }
        match self.flags() {
            STRING => {
                // SAFETY: a string of a value ends with NUL (FTN12 §2.7.1) and lives with it
                let text = unsafe { CStr::from_ptr(p.cast()) };
                text.to_str().ok().map(str::to_owned)
            }
            STRING16 => String::from_utf16(&read_until_nul(p.cast::<u16>())).ok(),
            STRING32 => read_until_nul(p.cast::<u32>()).into_iter().map(char::from_u32).collect(),
            _ => None,
        }
    }

    /// An array of a fundamental type; `None` for others.
    fn read_array(&self) -> Option<Box<dyn Any>> {
        fn read<T: Copy>(value: &Value) -> Option<Vec<T>> {
            let p: *const T = value.0.data.pointer();
            if value.0.length == 0 {
                return Some(Vec::new());
            }
            if p.is_null() || !p.is_aligned() {
                return None;
            }
            // SAFETY: an array has `length` elements at `p` and lives with its value (FTN12 §2.7.1)
            Some(unsafe { slice::from_raw_parts(p, value.0.length as usize) }.to_vec())
        }
        fn boxed<T: Copy + 'static>(value: &Value) -> Option<Box<dyn Any>> {
            Some(Box::new(read::<T>(value)?))
        }
        match self.flags() & BASE_MASK {
            BOOL => {
                let bytes = read::<u8>(self)?;
                Some(Box::new(bytes.into_iter().map(|byte| byte != 0).collect::<Vec<bool>>()))
            }
            INT8 => boxed::<i8>(self),
            INT16 => boxed::<i16>(self),
            INT32 => boxed::<i32>(self),
            INT64 => boxed::<i64>(self),
            UINT8 => boxed::<u8>(self),
            UINT16 => boxed::<u16>(self),
            UINT32 => boxed::<u32>(self),
            UINT64 => boxed::<u64>(self),
            FLOAT => boxed::<f32>(self),
            DOUBLE => boxed::<f64>(self),
            _ => None,
        }
    }
}

/// The units of a string that ends with NUL; none for a pointer that is not aligned.
fn read_until_nul<T: Copy + Default + PartialEq>(p: *const T) -> Vec<T> {
    let mut units = Vec::new();
    if !p.is_aligned() {
        return units;
    }
    loop {
        // SAFETY: all units before this one were not NUL, so this one belongs to the string
        let next = unsafe { p.add(units.len()) };
        // SAFETY: as above, and `p` is aligned
        let unit = unsafe { next.read() };
        if unit == T::default() {
            return units;
        }
        units.push(unit);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: as in `flags`
        let Some(kind) = (unsafe { self.0.kind.as_ref() }) else { return };
        if let Some(cleanup) = kind.cleanup {
            // SAFETY: the value is ours to release, and this happens once (FTN12 §2.7.1)
            unsafe { cleanup(&raw mut self.0) };
        }
    }
}

impl Values {
    /// No values.
    pub const NONE: Self = Self([Value::NONE; 4]);

    /// Takes the values out of the argument of `success`, which is empty afterwards.
    ///
    /// # Safety
    /// `args` is null or points to values that follow FTN12 §2.7.2 and belong to the caller.
    pub(crate) unsafe fn take(args: *mut FutoInArgs) -> Result<Self, UnknownFlags> {
        // SAFETY: the caller's promise
        let Some(args) = (unsafe { args.as_mut() }) else { return Ok(Self::NONE) };
        let args = mem::replace(args, FutoInArgs::NONE);
        let values = Self(args.args.map(Value));
        values.0.iter().try_for_each(Value::check)?;
        Ok(values)
    }

    /// Passes the ownership of the values on. Their new owner has to release them.
    pub(crate) fn into_raw(self) -> FutoInArgs {
        FutoInArgs { args: self.0.map(Value::into_raw) }
    }

    /// The arguments for a callback, which may take values out of them.
    pub(crate) fn as_args(&mut self) -> *const FutoInArgs {
        (&raw mut *self).cast_const().cast()
    }

    /// The values with their positions kept: those at the end that are none do not count.
    fn count(&self) -> usize {
        self.0.iter().rposition(|value| !value.is_none()).map_or(0, |last| last + 1)
    }
}

impl ForeignArgs for Values {
    fn len(&self) -> usize {
        self.count()
    }

    fn give(self, to: &mut dyn FnMut(Box<dyn Any>)) {
        let count = self.count();
        self.0.into_iter().take(count).for_each(|value| to(value.into_any()));
    }

    fn take(values: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self {
        Self(std::array::from_fn(|_| values.next().map_or(Value::NONE, Value::from_any)))
    }

    #[inline]
    fn scalar(&self) -> Option<Scalar> {
        let [value, rest @ ..] = &self.0;
        if rest.iter().all(Value::is_none) { value.scalar() } else { None }
    }

    #[inline]
    fn of_scalar(scalar: Scalar) -> Option<Self> {
        let mut values = Self::NONE;
        values.0[0] = Value::of_scalar(scalar);
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: PartialEq + fmt::Debug + Clone + 'static>(value: T, flags: u8) {
        let foreign = Value::from_any(Box::new(value.clone()));
        assert_eq!(foreign.flags(), flags);
        let back = foreign.into_any();
        assert_eq!(back.downcast_ref::<T>(), Some(&value));
    }

    #[test]
    fn values_keep_their_type_and_content() {
        round_trip(true, BOOL);
        round_trip(-1i8, INT8);
        round_trip(i16::MIN, INT16);
        round_trip(-7i32, INT32);
        round_trip(i64::MIN, INT64);
        round_trip(200u8, UINT8);
        round_trip(u16::MAX, UINT16);
        round_trip(7u32, UINT32);
        round_trip(u64::MAX, UINT64);
        round_trip(1.5f32, FLOAT);
        round_trip(-2.25f64, DOUBLE);
        round_trip("text with \u{e9}".to_owned(), STRING);
        round_trip(vec![1u16, 2, 3], ARRAY | UINT16);
        round_trip(vec![true, false], ARRAY | BOOL);
        round_trip(Vec::<f64>::new(), ARRAY | DOUBLE);
        round_trip(Some("an object"), CUSTOM_OBJECT);
    }

    #[test]
    fn a_number_is_a_scalar_unless_something_comes_with_it() {
        let number = || Value::plain(INT32, 7i32.to_ne_bytes()).into_raw();
        let values = |value| Values([Value(value), Value::NONE, Value::NONE, Value::NONE]);
        assert_eq!(values(number()).scalar(), Some(Scalar::I32(7)));
        let back = Values::of_scalar(Scalar::I32(7)).expect("any scalar is a value");
        assert_eq!((back.count(), back.scalar()), (1, Some(Scalar::I32(7))));

        let mut data = 0u8;
        let custom_data = (&raw mut data).cast();
        assert_eq!(values(FutoInBinaryValue { custom_data, ..number() }).scalar(), None);
        unsafe extern "C" fn leave(_: *mut FutoInBinaryValue) {}
        let kind = FutoInType { flags: INT32, cleanup: Some(leave) };
        let kind = &raw const kind;
        assert_eq!(values(FutoInBinaryValue { kind, ..number() }).scalar(), None);
        let text = Value::from_any(Box::new("7"));
        assert_eq!(Values([text, Value::NONE, Value::NONE, Value::NONE]).scalar(), None);
        let two = Values([Value(number()), Value(number()), Value::NONE, Value::NONE]);
        assert_eq!(two.scalar(), None, "their positions count");
    }

    #[test]
    fn an_object_is_dropped_once_wherever_it_ends() {
        let object = Rc::new(());
        let value = Value::from_any(Box::new(Rc::clone(&object)));
        drop(value);
        assert_eq!(Rc::strong_count(&object), 1);
        let value = Value::from_any(Box::new(Rc::clone(&object)));
        drop(value.into_any());
        assert_eq!(Rc::strong_count(&object), 1);
    }

    #[test]
    fn strings_of_other_technologies_end_with_nul() {
        let wide: Vec<u16> = "w\u{1F34E}".encode_utf16().chain([0]).collect();
        let kind = FutoInType { flags: STRING16, cleanup: None };
        let value = Value(FutoInBinaryValue {
            kind: &raw const kind,
            data: FutoInData::of_pointer(wide.as_ptr()),
            ..FutoInBinaryValue::NONE
        });
        assert_eq!(value.into_any().downcast_ref::<String>(), Some(&"w\u{1F34E}".to_owned()));
    }

    #[test]
    fn unknown_flags_are_refused() {
        for (flags, known) in
            [(0x00, false), (0x05, true), (0x10, false), (0x25, false), (0x1F, true)]
        {
            let kind = FutoInType { flags, cleanup: None };
            let value =
                Value(FutoInBinaryValue { kind: &raw const kind, ..FutoInBinaryValue::NONE });
            assert_eq!(value.check().is_ok(), known, "{flags:#x}");
        }
    }
}
