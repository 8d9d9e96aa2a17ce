//! `#[derive(Code)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Token, Type, Variant,
};

/// The content of `#[code(..)]`.
#[derive(Default)]
struct Attributes {
    code: Option<LitStr>,
    is_public: bool,
}

/// One kind of error: a variant, or a struct.
struct ErrorKind {
    pattern: TokenStream,
    code: LitStr,
    is_public: bool,
    /// The value by the text for callers, `info`, if that says all of it.
    value: Option<TokenStream>,
}

/// The implementation, for a caller that knows the trait under `home`, the path of a crate.
pub(crate) fn implement(input: &DeriveInput, home: &TokenStream) -> Result<TokenStream> {
    let kinds = ErrorKind::all(input)?;
    let mut all: Vec<&LitStr> = Vec::new();
    for ErrorKind { code, .. } in &kinds {
        if !all.iter().any(|other| other.value() == code.value()) {
            all.push(code);
        }
    }
    let codes = kinds.iter().map(|ErrorKind { pattern, code, .. }| quote!(#pattern => #code));
    let infos = kinds.iter().map(|ErrorKind { pattern, is_public, .. }| match is_public {
        true => quote!(#pattern => ::core::option::Option::Some(::std::string::ToString::to_string(self))),
        false => quote!(#pattern => ::core::option::Option::None),
    });
    // code and text cannot say what the parameters of an error were, nor which of two errors it was
    let is_told = |kind: &&ErrorKind| {
        let same = kinds.iter().filter(|other| other.code.value() == kind.code.value());
        input.generics.params.is_empty() && same.count() == 1
    };
    let told = kinds.iter().filter(is_told).filter_map(ErrorKind::match_arm);
    let told: Vec<TokenStream> = told.collect();
    let from_code = (!told.is_empty()).then(|| quote! {
        fn from_code(code: &str, info: ::core::option::Option<&str>) -> ::core::option::Option<
            ::std::boxed::Box<dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync>,
        > {
            let _ = info;
            match code {
                #(#told,)*
                _ => ::core::option::Option::None,
            }
        }
    });
    // serde is asked about one type, and not about all that the parameters allow
    let json = input.generics.params.is_empty().then(|| json(home));
    let name = &input.ident;
    let (parameters, arguments, bounds) = input.generics.split_for_impl();
    // an enum without variants has no value to match
    let this = if kinds.is_empty() { quote!(*self) } else { quote!(self) };
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #home::Code for #name #arguments #bounds {
            const CODES: &'static [&'static str] = &[#(#all),*];

            fn code(&self) -> &'static str {
                match #this { #(#codes,)* }
            }

            fn info(&self) -> ::core::option::Option<::std::string::String> {
                match #this { #(#infos,)* }
            }

            #from_code

            #json
        }
    })
}

/// The value as JSON, if serde writes and reads the type.
fn json(home: &TokenStream) -> TokenStream {
    let error = quote! {
        ::std::boxed::Box<dyn ::std::error::Error + ::core::marker::Send + ::core::marker::Sync>
    };
    let result = |value| quote!(::core::option::Option<::core::result::Result<#value, #error>>);
    let (json, value) = (result(quote!(::std::string::String)), result(error.clone()));
    quote! {
        fn to_json(&self) -> #json {
            use #home::derive::NoJson as _;
            #home::derive::JsonOf::<Self>::write(self)
        }

        fn from_json(json: &str) -> #value {
            use #home::derive::NoJson as _;
            #home::derive::JsonOf::<Self>::read(json)
        }
    }
}

impl ErrorKind {
    fn all(input: &DeriveInput) -> Result<Vec<Self>> {
        let whole = Attributes::read(&input.attrs)?;
        match &input.data {
            Data::Struct(data) => {
                let code = whole.code_or(&input.ident)?;
                let pattern = quote!(Self { .. });
                let is_public = whole.is_public;
                let value = value(&quote!(Self), &data.fields, &input.attrs, is_public);
                Ok(vec![Self { pattern, code, is_public, value }])
            }
            Data::Enum(data) => {
                if let Some(code) = &whole.code {
                    return Err(Error::new(code.span(), "each variant has a code: write it there"));
                }
                data.variants.iter().map(|variant| Self::of(variant, &whole)).collect()
            }
            Data::Union(_) => Err(Error::new_spanned(&input.ident, "a union is no error type")),
        }
    }

    fn match_arm(&self) -> Option<TokenStream> {
        let (code, value) = (&self.code, self.value.as_ref()?);
        Some(quote!(#code => ::core::option::Option::Some(::std::boxed::Box::new(#value))))
    }

    fn of(variant: &Variant, whole: &Attributes) -> Result<Self> {
        let own = Attributes::read(&variant.attrs)?;
        let name = &variant.ident;
        let pattern = match variant.fields {
            Fields::Named(_) | Fields::Unnamed(_) => quote!(Self::#name { .. }),
            Fields::Unit => quote!(Self::#name),
        };
        let is_public = own.is_public || whole.is_public;
        let value = value(&quote!(Self::#name), &variant.fields, &variant.attrs, is_public);
        Ok(Self { pattern, code: own.code_or(name)?, is_public, value })
    }
}

/// The value of this name by `info`: without fields, or with one that is all of the text, as `#[error("{0}")]` of
/// thiserror says.
fn value(
    name: &TokenStream,
    fields: &Fields,
    attributes: &[Attribute],
    is_public: bool,
) -> Option<TokenStream> {
    if matches!(fields, Fields::Unit) {
        return Some(name.clone());
    }
    let field = fields.iter().next().filter(|_| fields.len() == 1 && is_public)?;
    let member = field.ident.as_ref().map_or_else(|| "0".to_owned(), Ident::to_string);
    let is_text = |attribute: &&Attribute| attribute.path().is_ident("error");
    let text: LitStr = attributes.iter().find(is_text)?.parse_args().ok()?;
    if text.value() != format!("{{{member}}}") || !is_plain(&field.ty) {
        return None;
    }
    let parsed = quote!(::core::result::Result::ok(::core::primitive::str::parse(info?))?);
    Some(match &field.ident {
        Some(field) => quote!(#name { #field: #parsed }),
        None => quote!(#name(#parsed)),
    })
}

/// Whether the text of a value is read as the same value: of text and numbers.
fn is_plain(kind: &Type) -> bool {
    let plain = [
        "String", "bool", "char", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32",
        "u64", "u128", "usize", "f32", "f64",
    ];
    matches!(kind, Type::Path(path) if plain.iter().any(|name| path.path.is_ident(name)))
}

impl Attributes {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("code")) {
            let Self { code, is_public } = attribute.parse_args()?;
            if all.code.is_some() && code.is_some() {
                return Err(Error::new_spanned(attribute, "there is a code already"));
            }
            all.code = all.code.or(code);
            all.is_public |= is_public;
        }
        Ok(all)
    }

    /// The code, or else the name.
    fn code_or(&self, name: &Ident) -> Result<LitStr> {
        let code = match &self.code {
            Some(code) => code.clone(),
            None => LitStr::new(&name.to_string(), name.span()),
        };
        if is_code(&code.value()) {
            return Ok(code);
        }
        let message = "a code of FTN3 is named like SomeError or SOME_ERROR";
        Err(Error::new(code.span(), message))
    }
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut all = Self::default();
        while !input.is_empty() {
            if input.peek(LitStr) {
                all.code = Some(input.parse()?);
            } else {
                let word: Ident = input.parse()?;
                if word != "public" {
                    return Err(Error::new(word.span(), "expected a code as text, or `public`"));
                }
                all.is_public = true;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(all)
    }
}

/// Whether a definition may have this code in `throws`.
fn is_code(text: &str) -> bool {
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    text.starts_with(|first: char| first.is_ascii_uppercase()) && is_word(text)
}
