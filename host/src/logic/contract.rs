//! What a component lacks of world `logic`. The embedded component is the measure, so there is no second list to keep.

use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentInstance, ComponentItem, Type};
use wasmtime::{Engine, Result};

use super::component::EMBEDDED;
use super::error::{BadComponent, LogicError};

/// How the exports of a component differ from those of the embedded one.
#[derive(Debug, Default)]
pub(super) struct Differences {
    missing: Vec<String>,
    mistyped: Vec<String>,
}

impl Differences {
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.mistyped.is_empty()
    }

    pub(super) fn into_error(self, forbidden: Vec<String>) -> LogicError {
        BadComponent::Unfit { missing: self.missing, mistyped: self.mistyped, forbidden }.into()
    }
}

/// Compares with the embedded component; that one is compiled for it, so this is for a component that was refused.
pub(super) fn compare(engine: &Engine, component: &Component) -> Result<Differences> {
    let measure = Component::from_binary(engine, EMBEDDED)?.component_type();
    let found = component.component_type();
    let mut differences = Differences::default();
    for (interface, item) in measure.exports(engine) {
        let ComponentItem::ComponentInstance(wanted) = item.ty else { continue };
        match found.get_export(engine, interface).map(|item| item.ty) {
            Some(ComponentItem::ComponentInstance(found)) => {
                compare_functions(engine, interface, &wanted, &found, &mut differences);
            }
            _ => differences.missing.push(interface.to_owned()),
        }
    }
    Ok(differences)
}

fn compare_functions(
    engine: &Engine,
    interface: &str,
    wanted: &ComponentInstance,
    found: &ComponentInstance,
    differences: &mut Differences,
) {
    for (name, item) in wanted.exports(engine) {
        let ComponentItem::ComponentFunc(wanted) = item.ty else { continue };
        match found.get_export(engine, name).map(|item| item.ty) {
            Some(ComponentItem::ComponentFunc(found)) if signature(&found) == signature(&wanted) => {}
            Some(_) => differences.mistyped.push(format!("{interface}#{name}")),
            None => differences.missing.push(format!("{interface}#{name}")),
        }
    }
}

/// A function's type as text; types of two components have no other measure in common where they speak of resources.
fn signature(function: &ComponentFunc) -> String {
    let parameters = function.params().map(|(name, ty)| format!("{name}: {}", text(&ty)));
    format!("({}) -> {}", list(parameters), list(function.results().map(|ty| text(&ty))))
}

fn text(ty: &Type) -> String {
    let optional = |ty: Option<Type>| ty.map_or_else(|| "_".to_owned(), |ty| text(&ty));
    match ty {
        Type::List(inner) => format!("list<{}>", text(&inner.ty())),
        Type::Option(inner) => format!("option<{}>", text(&inner.ty())),
        Type::Result(inner) => format!("result<{}, {}>", optional(inner.ok()), optional(inner.err())),
        Type::Tuple(inner) => format!("tuple<{}>", list(inner.types().map(|ty| text(&ty)))),
        Type::Record(inner) => {
            format!("record {{{}}}", list(inner.fields().map(|field| format!("{}: {}", field.name, text(&field.ty)))))
        }
        Type::Variant(inner) => {
            format!("variant {{{}}}", list(inner.cases().map(|case| format!("{}({})", case.name, optional(case.ty)))))
        }
        Type::Enum(inner) => format!("enum {{{}}}", list(inner.names().map(str::to_owned))),
        Type::Flags(inner) => format!("flags {{{}}}", list(inner.names().map(str::to_owned))),
        Type::Own(_) => "own".to_owned(),
        Type::Borrow(_) => "borrow".to_owned(),
        // The rest are plain words like `U32`, and types that the world does not use.
        plain => format!("{plain:?}"),
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
