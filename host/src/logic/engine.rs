//! The engine that compiles and runs the component, without threads, async and other features that it does not need.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use super::error::LogicError;
use super::options::{Allocation, ComponentOptions};
use super::state::TABLE_ELEMENTS;

/// Creates an engine for these options.
pub(super) fn engine(options: &ComponentOptions) -> Result<Engine, LogicError> {
    create(&configure(options))
}

/// Creates an engine that compiles for other machines with this operating system and architecture. What it compiles
/// runs on an [`engine`] with default options if the processor has the features that it uses.
pub(super) fn portable_engine() -> Result<Engine, LogicError> {
    let mut config = configure(&ComponentOptions::default());
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux" };
    let target = format!("{}-{system}", std::env::consts::ARCH);
    // With an explicit target, only these features are used, and not all that this processor has.
    config.target(&target).map_err(failed)?;
    for feature in FEATURES {
        #[allow(
            unsafe_code,
            reason = "these flags exist, and an engine refuses code for features that it does not have"
        )]
        unsafe {
            config.cranelift_flag_enable(feature);
        }
    }
    create(&config)
}

fn create(config: &Config) -> Result<Engine, LogicError> {
    Engine::new(config).map_err(failed)
}

fn failed(error: wasmtime::Error) -> LogicError {
    LogicError::Engine { reason: format!("{error:#}") }
}

fn configure(options: &ComponentOptions) -> Config {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed).parallel_compilation(true);
    config.consume_fuel(options.limits.fuel.is_some());
    // A trap's reason is on stderr; backtraces of a stripped component would say nothing and take space.
    config.wasm_backtrace_max_frames(None).generate_address_map(false).native_unwind_info(false);
    config.concurrency_support(false);
    if let Allocation::Pooled { instances } = options.allocation {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances, options.limits.memory_bytes)));
    }
    config
}

fn pool(instances: u32, memory_bytes: usize) -> PoolingAllocationConfig {
    let parts = instances.saturating_mul(PARTS);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances).total_core_instances(parts).total_tables(parts);
    pool.total_memories(instances).max_memories_per_component(1).max_memory_size(memory_bytes);
    pool.max_tables_per_component(PARTS).table_elements(TABLE_ELEMENTS);
    pool
}

/// A component is several core instances with a table each: the program, and the glue for its imports.
const PARTS: u32 = 6;

/// The features of a processor that compiled code may use if it is made for other machines: those of x86-64-v3, which
/// has been in new processors since 2015. Other architectures have enough without any.
const FEATURES: &[&str] = if cfg!(target_arch = "x86_64") {
    &[
        "has_sse3",
        "has_ssse3",
        "has_cmpxchg16b",
        "has_sse41",
        "has_sse42",
        "has_popcnt",
        "has_avx",
        "has_avx2",
        "has_bmi1",
        "has_bmi2",
        "has_lzcnt",
        "has_fma",
    ]
} else {
    &[]
};
