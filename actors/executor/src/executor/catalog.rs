//! The hosted interfaces as data, for people and for tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_futoin::iface::{Definition, Function};
use serde::Serialize;
use serde_json::Value;

use super::handle::Executor;
use super::tool::ToolInfo;
use crate::plan::Plan;

/// The hosted interfaces, by name and version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Catalog {
    /// The interfaces.
    pub interfaces: Vec<InterfaceInfo>,
}

/// A hosted interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InterfaceInfo {
    /// Its name.
    pub iface: String,
    /// Its version.
    pub version: String,
    /// The interfaces it can also be called as (FTN3 §2.3).
    pub inherits: Vec<String>,
    /// The conditions of a call (FTN3 §2.4).
    pub requires: Vec<String>,
    /// The custom types with their constraints, by name (FTN3 §1.8.1).
    pub types: BTreeMap<String, Value>,
    /// The functions, by name.
    pub functions: Vec<FunctionInfo>,
}

/// A function of a hosted interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// The parameters in their order.
    pub params: Vec<ParameterInfo>,
    /// Its result: a type, or the types of result variables; `None` for no result or a raw one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The errors it declares.
    pub throws: Vec<String>,
    /// Whether a request may come with raw data.
    pub rawupload: bool,
    /// Whether the answer is raw data.
    pub rawresult: bool,
    /// Whether it may take long.
    pub heavy: bool,
    /// The least security level of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seclvl: Option<String>,
    /// Whether it is implemented.
    pub implemented: bool,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ParameterInfo {
    /// Its name.
    pub name: String,
    /// Its type, or the types that it may have.
    #[serde(rename = "type")]
    pub type_name: Value,
    /// Whether a call must provide it.
    pub required: bool,
    /// Its default value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

impl Executor {
    /// The functions that are listed as tools.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolInfo> {
        self.shared.registry.tools()
    }

    /// The hosted interfaces. An interface that is there only because another one inherits from it
    /// is named there.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        let mut interfaces = Vec::new();
        self.shared.registry.each(|definition, implemented| {
            interfaces.push(InterfaceInfo::of(definition, implemented));
        });
        interfaces
            .sort_by(|one, other| (&one.iface, &one.version).cmp(&(&other.iface, &other.version)));
        Catalog { interfaces }
    }

    /// The plans of all hosted functions, by their names: the steps of their requests, before one arrives. A function
    /// without a plan is among them, see [`Plan::kind`].
    #[must_use]
    pub fn plans(&self) -> Vec<Arc<Plan>> {
        self.shared.registry.plans()
    }
}

impl InterfaceInfo {
    fn of(definition: &Definition, implemented: &dyn Fn(&str) -> bool) -> Self {
        let functions = definition.functions();
        let functions = functions.map(|f| FunctionInfo::of(f, implemented(f.name())));
        Self {
            iface: definition.iface().to_owned(),
            version: definition.version().to_string(),
            inherits: definition.inherits().iter().map(|parent| parent.id().to_string()).collect(),
            requires: definition.constraints().map(str::to_owned).collect(),
            types: definition.types().map(|(name, kind)| (name.to_owned(), kind.clone())).collect(),
            functions: functions.collect(),
        }
    }
}

impl FunctionInfo {
    fn of(function: &Function, implemented: bool) -> Self {
        let params = function.params().iter().map(|param| ParameterInfo {
            name: param.name().to_owned(),
            type_name: param.type_name().clone(),
            required: param.default().is_none(),
            default: param.default().cloned(),
        });
        Self {
            name: function.name().to_owned(),
            params: params.collect(),
            result: function.result_type().cloned(),
            throws: function.errors().map(str::to_owned).collect(),
            rawupload: function.rawupload(),
            rawresult: function.rawresult(),
            heavy: function.heavy(),
            seclvl: function.seclvl().map(str::to_owned),
            implemented,
        }
    }
}
