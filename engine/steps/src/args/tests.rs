use std::sync::Arc;

use super::*;

fn pass<A: Arguments, B: Arguments>(given: A) -> Result<B, String> {
    B::from_args(given.into_args()).map_err(|mismatch| mismatch.to_string())
}

#[test]
fn the_same_type_comes_back() {
    assert_eq!(pass::<_, ()>(()), Ok(()));
    assert_eq!(pass::<_, u64>(7u64), Ok(7));
    assert_eq!(pass::<_, (u64, f64)>((7u64, 0.5)), Ok((7, 0.5)));
    assert_eq!(pass::<_, (u64, String)>((7u64, "a".to_owned())), Ok((7, "a".to_owned())));
    assert_eq!(
        pass::<_, (bool, Vec<u8>, char, &str)>((true, vec![1u8], 'c', "d")),
        Ok((true, vec![1], 'c', "d"))
    );
}

#[test]
fn a_number_of_any_type_comes_back_alone_and_beside_another() {
    fn both<T: Arg + Copy + PartialEq + std::fmt::Debug>(value: T) {
        assert_eq!(pass::<_, T>(value), Ok(value));
        assert_eq!(pass::<_, (T, bool)>((value, true)), Ok((value, true)));
    }
    both(true);
    both(i8::MIN);
    both(i16::MIN);
    both(i32::MIN);
    both(i64::MIN);
    both(isize::MIN);
    both(i128::MIN);
    both(u8::MAX);
    both(u16::MAX);
    both(u32::MAX);
    both(u64::MAX);
    both(usize::MAX);
    both(u128::MAX);
    both(f32::MIN_POSITIVE);
    both(f64::MIN_POSITIVE);
}

#[test]
fn values_that_are_not_declared_are_ignored() {
    assert_eq!(pass::<_, ()>((1, 2)), Ok(()));
    assert_eq!(pass::<_, i32>((1, 2)), Ok(1));
    assert_eq!(pass::<_, (String, i32)>(("a".to_owned(), 2, 'x')), Ok(("a".to_owned(), 2)));
    assert_eq!(pass::<_, String>(("a", 2, 'x', false)), Ok("a".to_owned()));
}

#[test]
fn numbers_and_text_convert_where_nothing_is_lost() {
    assert_eq!(pass::<_, u64>(1i32), Ok(1));
    assert_eq!(pass::<_, i8>(1u128), Ok(1));
    assert_eq!(pass::<_, f64>(5u8), Ok(5.0));
    assert_eq!(pass::<_, f64>(0.5f32), Ok(0.5));
    assert_eq!(pass::<_, Arc<str>>("text"), Ok("text".into()));
}

#[test]
fn a_mismatch_names_both_types() {
    assert_eq!(
        pass::<_, u8>(300i32),
        Err("the step takes u8 and was given i32".to_owned()),
        "the value does not fit"
    );
    assert_eq!(
        pass::<_, (i32, i32)>(1i32),
        Err("the step takes (i32, i32) and was given i32".to_owned())
    );
    assert_eq!(
        pass::<_, String>(()),
        Err("the step takes alloc::string::String and was given nothing".to_owned())
    );
    assert_eq!(pass::<_, f32>(0.1f64), Err("the step takes f32 and was given f64".to_owned()));
}

#[test]
fn erased_arguments_take_any_values() {
    let args = pass::<_, Args>((1, "two", 3.0)).expect("anything goes");
    assert_eq!(args.len(), 3);
    assert_eq!(args.into_typed(), Ok((1, "two", 3.0)));
    assert!(pass::<_, Args>(()).expect("nothing goes too").is_empty());
}

#[test]
fn values_are_the_same_after_a_completion() {
    let args = (1u64, "two".to_owned()).into_send_args();
    assert_eq!(args.into_args().into_typed(), Ok((1u64, "two".to_owned())));
    let args = 5i64.into_send_args();
    assert_eq!(args.into_args().into_typed(), Ok(5i64));
}
