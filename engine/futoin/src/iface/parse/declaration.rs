//! Declarations: the content of a definition, before types are resolved into checkers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraint::Constraints;
use super::reference::TypeRef;
use super::source_file::SourceFile;
use crate::iface::name::IfaceVer;

/// One definition as its file has it. Merging adds to `types` and `funcs` only.
#[derive(Debug)]
pub(crate) struct ParsedInterface {
    pub(crate) file: Arc<SourceFile>,
    pub(crate) types: BTreeMap<String, TypeDecl>,
    pub(crate) funcs: BTreeMap<String, FunctionDecl>,
    pub(crate) requires: Vec<String>,
    pub(crate) inherit: Option<IfaceVer>,
    pub(crate) imports: Vec<IfaceVer>,
    pub(crate) desc: Option<String>,
}

/// An entry of `types` (FTN3 §1.8.1).
#[derive(Debug, Clone)]
pub(crate) struct TypeDecl {
    pub(crate) base: TypeRef,
    pub(crate) constraints: Constraints,
    pub(crate) desc: Option<String>,
    /// The file that declares it.
    pub(crate) file: Arc<SourceFile>,
}

impl TypeDecl {
    /// As a definition writes it.
    pub(crate) fn to_value(&self) -> Value {
        let base = ("type".to_owned(), self.base.to_value());
        [base].into_iter().chain(self.constraints.to_values()).collect()
    }
}

/// An entry of `funcs`.
#[derive(Debug, Clone)]
pub(crate) struct FunctionDecl {
    /// The file that declares it.
    pub(crate) file: Arc<SourceFile>,
    /// In the order of the file.
    pub(crate) params: Vec<VariableDecl>,
    pub(crate) result: ResultDecl,
    pub(crate) desc: Option<String>,
    pub(crate) throws: Vec<String>,
    pub(crate) heavy: bool,
    pub(crate) seclvl: Option<String>,
    pub(crate) rawupload: bool,
    pub(crate) rawresult: bool,
    /// In bytes.
    pub(crate) maxreqsize: usize,
    /// In bytes.
    pub(crate) maxrspsize: usize,
}

/// A parameter, or a result variable, which has no default.
#[derive(Debug, Clone)]
pub(crate) struct VariableDecl {
    pub(crate) name: String,
    pub(crate) type_ref: TypeRef,
    pub(crate) default: Option<Value>,
    pub(crate) desc: Option<String>,
}

/// The result of a function.
#[derive(Debug, Clone)]
pub(crate) enum ResultDecl {
    Nothing,
    /// A result that is a type (FTN3 §1.8.5).
    Whole(TypeRef),
    Variables(Vec<VariableDecl>),
}

impl ResultDecl {
    /// As a definition writes it; `None` for no result.
    pub(crate) fn to_value(&self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Whole(type_ref) => Some(type_ref.to_value()),
            Self::Variables(variables) => {
                let variable = |decl: &VariableDecl| (decl.name.clone(), decl.type_ref.to_value());
                Some(variables.iter().map(variable).collect::<Map<_, _>>().into())
            }
        }
    }
}
