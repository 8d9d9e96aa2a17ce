//! Extensions: how a redeclared function may differ from the one it inherits or imports (FTN3 §2.3).

use crate::iface::error::Difference;
use crate::iface::parse::{FunctionDecl, ResultDecl, VariableDecl};

/// Whether `derived` only adds to `base` (FTN3 §2.3), so that callers of `base` may call it. A function
/// without a result gains none: its callers expect no answer.
pub(super) fn extends(derived: &FunctionDecl, base: &FunctionDecl) -> Result<(), Difference> {
    extends_params(&derived.params, &base.params)?;
    extends_result(&derived.result, &base.result)?;
    for (flag, is_kept) in [
        ("rawupload", derived.rawupload == base.rawupload),
        ("rawresult", derived.rawresult == base.rawresult),
        ("seclvl", derived.seclvl == base.seclvl),
    ] {
        if !is_kept {
            return Err(Difference::Flag(flag));
        }
    }
    Ok(())
}

fn extends_params(derived: &[VariableDecl], base: &[VariableDecl]) -> Result<(), Difference> {
    for (index, old) in base.iter().enumerate() {
        let name = old.name.clone();
        match derived.get(index) {
            Some(new) if new.name != name => return Err(Difference::ParameterOrder(name)),
            Some(new) if new.type_ref != old.type_ref => {
                return Err(Difference::ParameterType(name));
            }
            Some(new) if new.default.is_none() && old.default.is_some() => {
                return Err(Difference::LostDefault(name));
            }
            Some(_) => {}
            None => return Err(Difference::ParameterOrder(name)),
        }
    }
    match derived.iter().skip(base.len()).find(|added| added.default.is_none()) {
        Some(added) => Err(Difference::AddedWithoutDefault(added.name.clone())),
        None => Ok(()),
    }
}

fn extends_result(derived: &ResultDecl, base: &ResultDecl) -> Result<(), Difference> {
    match (derived, base) {
        (ResultDecl::Nothing, ResultDecl::Nothing) => Ok(()),
        (ResultDecl::Whole(new), ResultDecl::Whole(old)) if new == old => Ok(()),
        (ResultDecl::Variables(new), ResultDecl::Variables(old)) => {
            let is_kept = |old: &VariableDecl| {
                new.iter().any(|new| new.name == old.name && new.type_ref == old.type_ref)
            };
            match old.iter().find(|old| !is_kept(old)) {
                Some(lost) => Err(Difference::Result(lost.name.clone())),
                None => Ok(()),
            }
        }
        (ResultDecl::Nothing | ResultDecl::Whole(_) | ResultDecl::Variables(_), _) => {
            Err(Difference::ResultForm)
        }
    }
}
