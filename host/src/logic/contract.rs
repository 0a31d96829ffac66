//! Compares a component with world `logic`, by a component that implements all of it.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};

/// Returns the missing interfaces and functions, and the functions with another type.
pub(super) fn compare(engine: &Engine, measure: &Component, component: &Component) -> (Vec<String>, Vec<String>) {
    let (mut missing, mut mistyped) = (Vec::new(), Vec::new());
    let found = component.component_type();
    for (interface, item) in measure.component_type().exports(engine) {
        let ComponentItem::ComponentInstance(wanted) = item.ty else { continue };
        let Some(ComponentItem::ComponentInstance(found)) = found.get_export(engine, interface).map(|item| item.ty)
        else {
            missing.push(interface.to_owned());
            continue;
        };
        for (name, item) in wanted.exports(engine) {
            let ComponentItem::ComponentFunc(wanted) = item.ty else { continue };
            match found.get_export(engine, name).map(|item| item.ty) {
                Some(ComponentItem::ComponentFunc(found)) if signature(&found) == signature(&wanted) => {}
                Some(_) => mistyped.push(format!("{interface}#{name}")),
                None => missing.push(format!("{interface}#{name}")),
            }
        }
    }
    (missing, mistyped)
}

/// Returns a function's type as text, the only way to compare types with resources of two components.
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
        // The rest are plain names like `U32`, and types that the world does not use.
        plain => format!("{plain:?}"),
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
