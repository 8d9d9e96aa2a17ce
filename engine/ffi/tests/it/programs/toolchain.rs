//! How the tests build and run programs on the binary interface.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the crate `asyncsteps-ffi`, for tests of all packages.
pub(crate) fn ffi() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/ffi")
}

/// The folder with the library, which cargo built for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    test.parent().expect("it is in a folder").to_owned()
}

/// Runs a command that has to succeed; gives what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command can be started");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

pub(crate) const C: [&str; 6] = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
pub(crate) fn compiler(with: &[&str]) -> Command {
    let (compiler, options) = with.split_first().expect("it has a name");
    let mut command = Command::new(compiler);
    command.args(options).arg("-g").arg("-I").arg(ffi().join("include"));
    command
}

/// Compiles a program and links it with a library of this folder.
pub(crate) fn link(mut compiler: Command, source: &Path, folder: &Path, library: &str) -> PathBuf {
    // tests may run at the same time
    let name = source.file_name().expect("a file").to_string_lossy().replace('.', "-");
    let name = format!("{name}-{}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // before LD_LIBRARY_PATH, in which cargo may have another build of the library
    let mut rpath = OsStr::new("-Wl,--disable-new-dtags,-rpath,").to_owned();
    rpath.push(folder);
    succeed(
        compiler
            .arg(source)
            .arg("-L")
            .arg(folder)
            .args([&format!("-l{library}"), "-lpthread"])
            .arg(rpath)
            .arg("-o")
            .arg(&program),
    );
    program
}

pub(crate) fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    // std keeps a handle of threads that it did not start, through a pointer into its middle:
    // "possibly lost"
    let leaks = ["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
    command.args(leaks).args(["--quiet", "--error-exitcode=99", "--show-leak-kinds=definite"]);
    let known = ffi().join("tests/it/programs/known.supp");
    command.arg(format!("--suppressions={}", known.display()));
    command
}

/// Whether there is a program that `tests/run` installs where it can, and says so where it cannot.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Python with a library for the module `asyncsteps`: by itself, and under valgrind.
pub(crate) fn pythons(library: &Path) -> Vec<Command> {
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
