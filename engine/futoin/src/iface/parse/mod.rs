//! The text of a definition into declarations: every field known, every name and form checked
//! (FTN3 §2.1).

mod constraint;
mod declaration;
mod document;
mod function;
mod interface;
mod reference;
mod source_file;
mod standard_type;

pub(super) use self::constraint::{Constraint, Constraints};
pub(super) use self::declaration::{
    FunctionDecl, ParsedInterface, ResultDecl, TypeDecl, VariableDecl,
};
pub(super) use self::interface::parse;
pub(super) use self::reference::{FieldDecl, TypeMember, TypeRef};
pub(super) use self::source_file::SourceFile;
pub(super) use self::standard_type::StandardType;
