//! The programs in `examples`, built and run as their readers would, also under valgrind.

mod toolchain;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::toolchain::{C, compiler, ffi, is_installed, library, link, pythons, succeed, valgrind};

const CPP: [&str; 5] = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror"];
/// For the header alone, which others include under their own options.
const STRICT: [&str; 3] = ["-pedantic", "-Wshadow", "-Wzero-as-null-pointer-constant"];

/// Builds a program with the library.
fn build(with: &[&str], source: &str) -> PathBuf {
    link(compiler(with), &ffi().join(source), &library(), "asyncsteps_ffi")
}

/// Runs a program by itself, then under valgrind, where neither an error nor a leak may be found.
fn run(program: &Path) {
    assert_eq!(succeed(&mut Command::new(program)).trim(), "passed");
    if is_installed("valgrind") {
        assert_eq!(succeed(valgrind().arg(program)).trim(), "passed");
    }
}

#[test]
fn the_header_is_strict_c11_and_cpp11() {
    for (language, with) in [("c", C.to_vec()), ("c++", [&CPP[..], &STRICT[..]].concat())] {
        if !is_installed(with[0]) {
            continue;
        }
        let header = ffi().join("include/asyncsteps.h");
        let check = ["-fsyntax-only", "-include"];
        succeed(compiler(&with).args(check).arg(header).args(["-x", language, "/dev/null"]));
    }
}

#[test]
fn a_tour_in_c() {
    run(&build(&C, "examples/c/tour.c"));
}

#[test]
fn a_tour_in_cpp() {
    if is_installed(CPP[0]) {
        run(&build(&CPP, "examples/cpp/tour.cpp"));
    }
}

#[test]
fn a_tour_in_python() {
    for mut python in pythons(&library().join("libasyncsteps_ffi.so")) {
        let printed = succeed(python.arg(ffi().join("examples/python/tour.py")));
        assert_eq!(printed.trim(), "passed");
    }
}

#[test]
fn the_rules_from_cpp() {
    if is_installed(CPP[0]) {
        run(&build(&CPP, "tests/foreign/rules.cpp"));
    }
}

#[test]
fn what_other_bindings_count_on() {
    if is_installed(CPP[0]) {
        run(&build(&CPP, "tests/foreign/bindings.cpp"));
    }
}

#[test]
fn flows_of_another_suite() {
    if is_installed(CPP[0]) {
        let program = build(&CPP, "tests/foreign/flows.cpp");
        assert_eq!(succeed(&mut Command::new(&program)).trim(), "passed");
        if is_installed("valgrind") {
            assert_eq!(succeed(valgrind().arg(&program).arg("few")).trim(), "passed");
        }
    }
}
