//! Writes interfaces as TypeScript: `ftn3-typescript DEFINITIONS OUT INTERFACE:VERSION..`, where DEFINITIONS is a
//! folder of FTN3 files and OUT the folder of the modules.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use asyncsteps_futoin::iface::{Loader, Source};
use asyncsteps_futoin::typescript;

const USAGE: &str = "usage: ftn3-typescript DEFINITIONS OUT INTERFACE:VERSION..";

#[expect(clippy::print_stderr, reason = "a program says why it fails")]
fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [definitions, out, interfaces @ ..] = &args[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if interfaces.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    match write(definitions, Path::new(out), interfaces) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(next) = cause {
                text += &format!(": {next}");
                cause = next.source();
            }
            eprintln!("ftn3-typescript: {text}");
            ExitCode::FAILURE
        }
    }
}

fn write(definitions: &str, out: &Path, interfaces: &[String]) -> Result<(), Box<dyn Error>> {
    let mut loader = Loader::new([Source::folder(definitions), Source::builtin()]);
    let mut modules = Vec::new();
    for interface in interfaces {
        let id = interface.parse().map_err(|why| format!("{interface}: {why}"))?;
        let definition = loader.load(&id)?;
        modules.push((typescript::file_name(&definition), typescript::interface(&definition)));
    }
    modules.push(("futoin.ts".to_owned(), typescript::CLIENT.to_owned()));
    fs::create_dir_all(out).map_err(|why| format!("{}: {why}", out.display()))?;
    for (name, text) in modules {
        let file = out.join(name);
        fs::write(&file, text).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    Ok(())
}
