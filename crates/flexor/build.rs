//! Links the binary at a fixed address.
//!
//! Every pod of the laptop cluster has a process of this binary as its parent. One that can be loaded anywhere has to have
//! its tables of functions and texts filled in by each process that loads it: three quarters of a mebibyte that no two
//! parents share, of a whole of one. At a fixed address these tables are pages of the file, and a thousand parents share
//! them. The price is that the program itself is always at the same place; its stack, its heap and all libraries are not.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // Other systems have other linkers, and the static ones of musl would not start.
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
