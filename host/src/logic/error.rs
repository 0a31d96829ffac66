//! What can go wrong between the host and the component.

use std::path::PathBuf;

/// Why the component could not be loaded, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LogicError {
    /// The file cannot be read.
    #[error("cannot read the component {}", path.display())]
    Unreadable {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The component is none of world `logic`.
    #[error(transparent)]
    BadComponent(#[from] BadComponent),
    /// The file is no component of world `logic`.
    #[error("cannot use {}", path.display())]
    BadFile {
        /// The file that was asked for.
        path: PathBuf,
        /// Why not.
        source: BadComponent,
    },
    /// The engine cannot be set up on this machine or with these options.
    #[error("cannot set up WebAssembly: {reason}; try other limits, or allocation on demand")]
    Engine {
        /// What the engine said.
        reason: String,
    },
    /// All instances of the pool are in use.
    #[error("all {instances} instances of the pool are in use; raise the pool, or close gates")]
    PoolFull {
        /// How many instances the pool has.
        instances: u32,
    },
    /// The call used up its fuel.
    #[error("the component did not answer within {limit} units of fuel; ask for less at once, or raise the fuel")]
    Fuel {
        /// The fuel that one call may use.
        limit: u64,
    },
    /// The call wanted more memory than it may have.
    #[error("the component needs more than {limit} bytes of memory; ask for less at once, or raise the memory limit")]
    Memory {
        /// The most bytes that an instance may have.
        limit: usize,
    },
    /// The component broke off: a fault in it, never in its input.
    #[error("the component broke off: {reason}")]
    Trap {
        /// The message of the panic, or the name of the trap. It may quote the input.
        reason: String,
    },
    /// The component answered with what its contract does not allow: a fault in it, never in its input.
    #[error(
        "the component broke its contract: {what}; use the built-in component, or mend the one that `--logic` names"
    )]
    Contract {
        /// What is wrong with the answer.
        what: String,
    },
    /// An earlier call broke off, and the instance cannot be used any more.
    #[error("this instance of the component broke off earlier; make a new one")]
    Dead,
    /// The handle belongs to another instance.
    #[error("this handle belongs to another instance of the component; build it again in this one")]
    ForeignHandle,
}

/// Why a file is no component of world `logic`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadComponent {
    /// It is larger than any component should be.
    #[error("the component has more than {limit} bytes")]
    TooLarge {
        /// The most bytes that are read.
        limit: u64,
    },
    /// It is no component at all.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It is a component of ours, of the world that calls tools by itself.
    #[error(
        "this is a component of world toolgate:client/client; one of world toolgate:logic/logic is wanted, such as \
         `toolgate component` writes"
    )]
    OtherWorld,
    /// It is a component, but not one that may and can decide here.
    #[error("{}", describe(.missing, .mistyped, .forbidden))]
    Unfit {
        /// Interfaces and functions of world `logic` that it does not export.
        missing: Vec<String>,
        /// Functions that it exports with another type.
        mistyped: Vec<String>,
        /// Imports that a component must not have.
        forbidden: Vec<String>,
    },
    /// Its imports or exports do not fit in a way that has no list.
    #[error("the component does not fit world toolgate:logic/logic@0.1.0: {0}")]
    Mismatch(String),
}

fn describe(missing: &[String], mistyped: &[String], forbidden: &[String]) -> String {
    let parts = [
        ("it does not export", missing),
        ("it exports with another type", mistyped),
        ("it imports what no component may use here", forbidden),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    format!("the component does not fit world toolgate:logic/logic@0.1.0: {}", said.join("; "))
}
