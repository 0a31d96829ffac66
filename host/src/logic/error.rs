//! Errors between the host and the component.

use std::path::PathBuf;

/// An error of loading or asking the component.
#[derive(Debug, thiserror::Error)]
pub enum LogicError {
    /// The file cannot be read.
    #[error("cannot read the component {}", path.display())]
    Unreadable {
        /// The requested file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The component does not implement world `logic`.
    #[error(transparent)]
    BadComponent(#[from] BadComponent),
    /// The file is not a component of world `logic`.
    #[error("cannot use {}", path.display())]
    BadFile {
        /// The requested file.
        path: PathBuf,
        /// The reason.
        source: BadComponent,
    },
    /// The engine cannot be set up on this machine or with these options.
    #[error("cannot set up WebAssembly: {reason}; try other limits, or allocation on demand")]
    Engine {
        /// The engine's error.
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
    /// The call needs more memory than it may use.
    #[error("the component needs more than {limit} bytes of memory; ask for less at once, or raise the memory limit")]
    Memory {
        /// The maximum memory of an instance in bytes.
        limit: usize,
    },
    /// The component crashed, which is a fault in it, never in its input.
    #[error("the component crashed: {reason}")]
    Trap {
        /// The panic message, or the name of the trap. It may quote the input.
        reason: String,
    },
    /// The component returned something that its contract does not allow, which is a fault in it, never in its input.
    #[error(
        "the component broke its contract: {what}; use the built-in component, or fix the one that `--logic` names"
    )]
    Contract {
        /// What is wrong with the returned value.
        what: String,
    },
    /// An earlier call crashed, so the instance cannot be used any more.
    #[error("this instance of the component crashed earlier; create a new one")]
    Dead,
    /// The handle belongs to another instance.
    #[error("this handle belongs to another instance of the component; build it again in this one")]
    ForeignHandle,
}

/// The reason why a file is not a component of world `logic`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadComponent {
    /// It is larger than any component should be.
    #[error("the component has more than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It is not a component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It is toolgate's other component, of the world that calls tools itself.
    #[error(
        "this is a component of world toolgate:client/client; one of world toolgate:logic/logic is needed, such as \
         the one that `toolgate component` writes"
    )]
    OtherWorld,
    /// It is a component, but does not match the world.
    #[error("{}", describe(.missing, .mistyped, .forbidden))]
    Unfit {
        /// Interfaces and functions of world `logic` that it does not export.
        missing: Vec<String>,
        /// Functions that it exports with another type.
        mistyped: Vec<String>,
        /// Imports that a component must not have.
        forbidden: Vec<String>,
    },
    /// Its imports or exports do not match in a way that cannot be listed.
    #[error("the component does not match world toolgate:logic/logic@0.1.0: {0}")]
    Mismatch(String),
}

fn describe(missing: &[String], mistyped: &[String], forbidden: &[String]) -> String {
    let parts = [
        ("it does not export", missing),
        ("it exports with another type", mistyped),
        ("it imports what is not allowed here", forbidden),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    format!("the component does not match world toolgate:logic/logic@0.1.0: {}", said.join("; "))
}
