//! The programs in `examples`, built and run as their readers would, also under valgrind.

mod serve;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the package.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the library, which cargo built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    test.parent().expect("it is in a folder").to_owned()
}

/// Runs a command that has to succeed; gives what it printed.
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command can be started");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

const C: [&str; 6] = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
const CPP: [&str; 5] = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror"];
/// For the header alone, which others include under their own options.
const STRICT: [&str; 3] = ["-pedantic", "-Wshadow", "-Wzero-as-null-pointer-constant"];

fn compiler(with: &[&str]) -> Command {
    let (compiler, options) = with.split_first().expect("it has a name");
    let mut command = Command::new(compiler);
    command.args(options).arg("-g").arg("-I").arg(package().join("include"));
    command
}

/// Builds a program with the library.
fn build(with: &[&str], source: &str) -> PathBuf {
    link(compiler(with), source, &library(), "asyncsteps_ffi")
}

/// Compiles a program and links it with a library of this folder.
fn link(mut compiler: Command, source: &str, folder: &Path, library: &str) -> PathBuf {
    // tests may run at the same time
    let name = format!("{}-{}", source.replace(['/', '.'], "-"), std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // before LD_LIBRARY_PATH, in which cargo may have another build of the library
    let mut rpath = OsStr::new("-Wl,--disable-new-dtags,-rpath,").to_owned();
    rpath.push(folder);
    succeed(
        compiler
            .arg(package().join(source))
            .arg("-L")
            .arg(folder)
            .args([&format!("-l{library}"), "-lpthread"])
            .arg(rpath)
            .arg("-o")
            .arg(&program),
    );
    program
}

/// Runs a program by itself, then under valgrind, where neither an error nor a leak may be found.
fn run(program: &Path) {
    assert_eq!(succeed(&mut Command::new(program)).trim(), "passed");
    if is_installed("valgrind") {
        assert_eq!(succeed(valgrind().arg(program)).trim(), "passed");
    }
}

fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    // std keeps a handle of threads that it did not start, through a pointer into its middle:
    // "possibly lost"
    let leaks = ["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
    command.args(leaks).args(["--quiet", "--error-exitcode=99", "--show-leak-kinds=definite"]);
    let known = package().join("tests/programs/known.supp");
    command.arg(format!("--suppressions={}", known.display()));
    command
}

/// Whether there is a program that `tests/run` installs where it can, and says so where it cannot.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn the_header_is_strict_c11_and_cpp11() {
    for (language, with) in [("c", C.to_vec()), ("c++", [&CPP[..], &STRICT[..]].concat())] {
        if !is_installed(with[0]) {
            continue;
        }
        let header = package().join("include/asyncsteps.h");
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
        let printed = succeed(python.arg(package().join("examples/python/tour.py")));
        assert_eq!(printed.trim(), "passed");
    }
}

/// Python with a library for the module `asyncsteps`: by itself, and under valgrind.
fn pythons(library: &Path) -> Vec<Command> {
    let mut commands = vec![Command::new("python3")];
    if is_installed("valgrind") {
        let mut checked = valgrind();
        // what Python itself reads without having written it is not our business
        checked.arg("--undef-value-errors=no").env("PYTHONMALLOC", "malloc");
        // the command may be a script that finds it
        let find = ["-c", "import sys; print(sys.executable)"];
        checked.arg(succeed(Command::new("python3").args(find)).trim());
        commands.push(checked);
    }
    for command in &mut commands {
        // the folder of the sources stays as it is
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("ASYNCSTEPS_LIBRARY", library);
    }
    commands
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
