//! What wasmtime generates from the WIT of world `logic`; nobody outside this module and `extension` sees it.

#![allow(missing_docs, reason = "the documentation is in the WIT, and the generator does not copy all of it")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "logic",
    additional_derives: [PartialEq],
});
