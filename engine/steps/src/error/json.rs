//! Values of errors with codes (FTN3 §1.9) as JSON, for `#[derive(Code)]`: of types that serde writes and reads, and of no others.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;

/// Writes and reads the values of an error type. Its own functions exist where serde knows the type; elsewhere the
/// functions of [`NoJson`] are found.
#[doc(hidden)]
pub struct JsonOf<E>(PhantomData<E>);

#[cfg(feature = "serde")]
impl<E> JsonOf<E>
where
    E: StdError + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    pub fn write(error: &E) -> Option<Result<String, Box<dyn StdError + Send + Sync>>> {
        let written = serde_json::to_string(error).and_then(|json| {
            // a value that cannot be read again is not written
            serde_json::from_str::<E>(&json)?;
            Ok(json)
        });
        Some(written.map_err(Into::into))
    }

    #[must_use]
    pub fn read(
        json: &str,
    ) -> Option<Result<Box<dyn StdError + Send + Sync>, Box<dyn StdError + Send + Sync>>> {
        let read = serde_json::from_str::<E>(json);
        Some(read.map(|error| Box::new(error) as _).map_err(Into::into))
    }
}

/// Values of this type are not written.
#[doc(hidden)]
pub trait NoJson<E>: Sized {
    fn write(_error: &E) -> Option<Result<String, Box<dyn StdError + Send + Sync>>> {
        None
    }

    #[must_use]
    fn read(
        _json: &str,
    ) -> Option<Result<Box<dyn StdError + Send + Sync>, Box<dyn StdError + Send + Sync>>> {
        None
    }
}

impl<E> NoJson<E> for JsonOf<E> {}

impl<E> fmt::Debug for JsonOf<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonOf")
    }
}
