//! Code that wasmtime generates from the WIT of world `logic`, used only by this module and `extension`.

#![allow(missing_docs, reason = "the documentation is in the WIT, and the generator does not copy all of it")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "logic",
    additional_derives: [PartialEq],
});
