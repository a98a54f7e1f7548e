//! Merges equal functions of a release: each type of a generic has its own, thousands of which are the same code.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // There Rust links by LLD. Other linkers refuse the option, or need it less.
    let has_lld = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if has_lld && is("PROFILE", "release") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
