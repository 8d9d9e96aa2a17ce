//! The standard types (FTN3 §1.8).

/// A type that every definition can use without declaring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardType {
    Any,
    Boolean,
    Integer,
    Number,
    String,
    Data,
    Array,
    Map,
    Enum,
    Set,
}

/// A row of the table of standard types.
pub(crate) struct Row {
    /// The name in definitions.
    pub(crate) name: &'static str,
    /// The revision 1.`since` of FTN3 brought it.
    pub(crate) since: u32,
    /// The name of the type in errors about its revision.
    pub(crate) feature: &'static str,
}

impl StandardType {
    const ALL: [Self; 10] = [
        Self::Any,
        Self::Boolean,
        Self::Integer,
        Self::Number,
        Self::String,
        Self::Data,
        Self::Array,
        Self::Map,
        Self::Enum,
        Self::Set,
    ];

    /// The type of this name; `None` if it is no standard one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standard| standard.row().name == name)
    }

    pub(crate) fn row(self) -> Row {
        let (name, since, feature) = match self {
            Self::Any => ("any", 1, "type any"),
            Self::Boolean => ("boolean", 0, "type boolean"),
            Self::Integer => ("integer", 0, "type integer"),
            Self::Number => ("number", 0, "type number"),
            Self::String => ("string", 0, "type string"),
            Self::Data => ("data", 9, "type data"),
            Self::Array => ("array", 0, "type array"),
            Self::Map => ("map", 0, "type map"),
            Self::Enum => ("enum", 6, "types enum and set"),
            Self::Set => ("set", 6, "types enum and set"),
        };
        Row { name, since, feature }
    }
}
