//! Builds the guest for wasm32-wasip2 into OUT_DIR as `logic.wasm` and `client.wasm`, packed with DEFLATE, and tells the
//! crate their digests. Lists the files of the WIT packages for the crate.
//!
//! If `TOOLGATE_COMPILED` names a folder, the machine code in it, which `toolgate component --compiled` wrote, becomes part
//! of the program. So a release is built twice, and its first call does not wait for a compiler.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use sha2::{Digest, Sha256};

const TARGET: &str = "wasm32-wasip2";
/// The level of compression.
const BEST: u8 = 9;
/// The worlds, and the features of the guest that make it one of each.
const WORLDS: [(&str, &str); 2] = [("logic", ""), ("client", "client")];

fn main() {
    let host = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo:rerun-if-changed=build.rs");
    list_wit(&host.join("wit"), &out.join("wit-logic.rs"));
    list_wit(&host.join("wit/client"), &out.join("wit-client.rs"));
    // A packaged crate, which cargo has given this file, has no guest beside it: the components come with it.
    let packaged = host.join("Cargo.toml.orig").exists();
    let built = if packaged { packaged_components(&host) } else { build_components(&host, &out) };
    println!("cargo:rerun-if-env-changed=TOOLGATE_COMPILED");
    for ((world, _), built) in WORLDS.iter().zip(built) {
        let bytes = fs::read(&built).unwrap_or_else(|error| fail(&format!("cannot read {}: {error}", built.display())));
        write_packed(&out.join(format!("{world}.wasm.deflate")), &bytes);
        let digest = format!("{:x}", Sha256::digest(&bytes));
        println!("cargo:rustc-env=TOOLGATE_{}_DIGEST={digest}", world.to_uppercase());
        if *world == "logic" {
            write_packed(&out.join("logic.cwasm.deflate"), &compiled(&digest));
        }
    }
}

/// Writes a Rust expression for the contents of all WIT files in a folder, by name.
fn list_wit(folder: &Path, expression: &Path) {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.unwrap_or_else(|error| fail(&format!("cannot list {}: {error}", folder.display())));
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            files.push(path);
        }
    }
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        code += &format!("    include_str!({:?}),\n", file.display().to_string());
    }
    code += "]\n";
    fs::write(expression, code)
        .unwrap_or_else(|error| fail(&format!("cannot write {}: {error}", expression.display())));
}

/// Writes a file that the crate includes and unpacks when it is needed: packed, they take a third.
fn write_packed(file: &Path, bytes: &[u8]) {
    let packed = miniz_oxide::deflate::compress_to_vec(bytes, BEST);
    fs::write(file, packed).unwrap_or_else(|error| fail(&format!("cannot write {}: {error}", file.display())));
}

/// Returns the machine code of the component with this digest, or nothing if this build is not given any.
fn compiled(digest: &str) -> Vec<u8> {
    let Some(folder) = env::var_os("TOOLGATE_COMPILED") else { return Vec::new() };
    let file = PathBuf::from(folder).join(format!("{digest}.cwasm"));
    println!("cargo:rerun-if-changed={}", file.display());
    fs::read(&file).unwrap_or_else(|error| {
        fail(&format!(
            "TOOLGATE_COMPILED: cannot read {}: {error}; build without this variable, and let that program write the \
             file: `toolgate component --compiled FOLDER`",
            file.display()
        ))
    })
}

/// Says what the guest is made of, and sees to it that it can be built.
fn prepare() {
    for path in ["../guest/src", "../guest/build.rs", "../guest/Cargo.toml", "../wit", "../Cargo.toml", "../Cargo.lock"]
    {
        println!("cargo:rerun-if-changed={path}");
    }
    ensure_target();
}

/// Returns the files that a packaged crate carries.
fn packaged_components(host: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (world, _) in WORLDS {
        println!("cargo:rerun-if-changed={world}.wasm");
        files.push(host.join(format!("{world}.wasm")));
    }
    files
}

/// Builds the components of all worlds at the same time, since the compiler spends most of it on one thread.
fn build_components(host: &Path, out: &Path) -> Vec<PathBuf> {
    prepare();
    let mut builds = Vec::new();
    for (world, features) in WORLDS {
        // Each has a folder of its own: cargo lets only one build use a folder at a time.
        let target_dir = out.join(format!("guest-{world}"));
        builds.push((start_guest(host, out, &target_dir, features), target_dir));
    }
    let mut files = Vec::new();
    let mut has_failed = false;
    for (mut cargo, target_dir) in builds {
        let status = cargo.wait().unwrap_or_else(|error| fail(&format!("cannot wait for the guest's cargo: {error}")));
        has_failed |= !status.success();
        files.push(target_dir.join(TARGET).join("release/toolgate_guest.wasm"));
    }
    if has_failed {
        // The errors of the guest are worth more than one line, so cargo must print them.
        std::process::exit(1);
    }
    files
}

/// Starts a cargo of its own for the guest.
fn start_guest(host: &Path, out: &Path, target_dir: &Path, features: &str) -> Child {
    let sysroot = ask_rustc(&["--print", "sysroot"]).unwrap_or_else(|| fail("`rustc --print sysroot` fails"));
    let mut cargo = scrubbed(&variable("CARGO"));
    cargo.args(["build", "--release", "--locked", "--lib", "-p", "toolgate-guest", "--target", TARGET]);
    cargo.args(["--features", features]);
    cargo.arg("--manifest-path").arg(host.join("../guest/Cargo.toml")).arg("--target-dir").arg(target_dir);
    // The same in every profile: a development build carries the component that a release ships.
    for setting in ["opt-level=2", "panic='abort'", "strip=true", "debug=false", "lto='fat'", "codegen-units=1"] {
        cargo.args(["--config", &format!("profile.release.{setting}")]);
    }
    // Parsers of patterns and of YAML run seldom: they are made small.
    for (package, level) in [
        ("aho-corasick", "s"),
        ("regex-automata", "s"),
        ("regex-syntax", "z"),
        ("saphyr-parser", "z"),
        ("unicode-normalization", "z"),
    ] {
        cargo.args(["--config", &format!("profile.release.package.{package}.opt-level='{level}'")]);
    }
    // The encoded form, since a path may hold a space.
    let mut flags = remaps(host, out, &sysroot);
    // Masks search texts a fifth faster with it, and every engine that runs components has it.
    flags.push("-Ctarget-feature=+simd128".to_owned());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    // What it prints would be taken for instructions to the outer cargo.
    cargo.stdout(Stdio::null());
    cargo.spawn().unwrap_or_else(|error| fail(&format!("cannot start cargo for the guest: {error}")))
}

/// Adds the target where rustup can, and otherwise says what is missing.
fn ensure_target() {
    let installed =
        || ask_rustc(&["--print", "target-libdir", "--target", TARGET]).is_some_and(|dir| Path::new(&dir).is_dir());
    if installed() {
        return;
    }
    // Cargo sets RUSTUP_TOOLCHAIN, so this is the toolchain that builds.
    let added = Command::new("rustup").args(["target", "add", TARGET]).stdout(Stdio::null()).status();
    if !added.is_ok_and(|status| status.success()) || !installed() {
        fail(&format!(
            "this Rust has no standard library for {TARGET}: run `rustup target add {TARGET}`, \
             or install your distribution's package for it, and build again"
        ));
    }
}

/// Flags that keep the paths of this machine out of the component; the last match wins, so the wider ones come first.
fn remaps(host: &Path, out: &Path, sysroot: &str) -> Vec<String> {
    let home = env::var("HOME").or_else(|_| env::var("USERPROFILE")).unwrap_or_default();
    let cargo_home = env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let workspace = host.parent().unwrap_or(host).display().to_string();
    let out = out.display().to_string();
    [(home, "home"), (cargo_home, "cargo"), (sysroot.to_owned(), "rust"), (workspace, "toolgate"), (out, "target")]
        .into_iter()
        .filter(|(from, _)| !from.is_empty())
        .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
        .collect()
}

/// A command without the settings of the outer build: its flags, wrappers (clippy is one), target and profile.
fn scrubbed(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if SCRUBBED.contains(&name.as_ref()) || SCRUBBED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name.as_ref());
        }
    }
    command
}

fn ask_rustc(arguments: &[&str]) -> Option<String> {
    let output = scrubbed(&variable("RUSTC")).args(arguments).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| fail(&format!("{name}: {error}")))
}

/// Ends the build with one line: cargo prints what a script wrote only where it exits with an error.
fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    std::process::exit(0)
}

const SCRUBBED: [&str; 9] = [
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CLIPPY_CONF_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_TARGET_DIR",
];
const SCRUBBED_PREFIXES: [&str; 4] = ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_UNSTABLE_"];
