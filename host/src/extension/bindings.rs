//! The bindings that wasmtime generates from the WIT package `toolgate:client`; their data types are those of
//! `logic::types`.
//!
//! To bring your own transport, implement `toolgate::client::transport` for your own data, and use the component of
//! world `client` as [`ClientPre`] and [`Client`].

#![allow(missing_docs, reason = "the documentation is in the WIT, and the generator does not copy all of it")]

wasmtime::component::bindgen!({
    path: ["wit", "wit/client"],
    // Both worlds as a host sees them, without the interfaces of `logic`.
    inline: "
        package toolgate:host;

        world client {
            import toolgate:client/transport@0.1.0;
            import toolgate:client/tools@0.1.0;
            export toolgate:client/tool-executor@0.1.0;
        }
    ",
    world: "toolgate:host/client",
    with: { "toolgate:logic": crate::extension::bindings::words },
    additional_derives: [PartialEq],
});

/// The types of `logic`, with the traits that the generator expects for imported interfaces; they need nothing from a
/// host.
#[doc(hidden)]
pub mod words {
    macro_rules! words {
        ($($interface:ident),*) => {
            $(pub mod $interface {
                pub use crate::logic::bindings::exports::toolgate::logic::$interface::*;

                pub trait Host {}
                impl<T: ?Sized> Host for T {}

                pub trait HostWithStore<T> {}
                impl<T, D: ?Sized> HostWithStore<T> for D {}

                pub fn add_to_linker<T, D: wasmtime::component::HasData>(
                    _: &mut wasmtime::component::Linker<T>,
                    _: fn(&mut T) -> D::Data<'_>,
                ) -> wasmtime::Result<()> {
                    Ok(())
                }
            })*
        };
    }
    words!(types, naming, catalog, search, filtering, recovery, masking, rules, execution);
}
