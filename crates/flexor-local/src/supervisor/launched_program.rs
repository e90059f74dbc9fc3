//! Looks up the program that torchrun is to launch, before torchrun is started: it would start a missing one again and
//! again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use flexor_agent::processes::{ProgramError, find_program};
use flexor_dialects::launch_options::{self, Asked, ProgramKind};

/// The module of torchrun.
const MODULE: &str = "torch.distributed.run";
/// torchrun's option for a program that is no Python script.
const NO_PYTHON: [&str; 2] = ["--no-python", "--no_python"];

/// Checks the program in a command line of torchrun that runs in `folder`. Any other command passes, and so does a line
/// of torchrun that cannot be read: torchrun says what is wrong with it.
pub(super) fn check(command: &[String], path: Option<&str>, folder: &Path) -> Result<(), ProgramError> {
    let Some(words) = torchrun_words(command) else { return Ok(()) };
    let Ok(parsed) = launch_options::parse(words, &BTreeMap::new()) else { return Ok(()) };
    let Asked::Launch(options) = parsed.asked else { return Ok(()) };
    match (options.program.kind, &options.program.argv[..]) {
        (ProgramKind::PythonScript, [_, _, script, ..]) if !folder.join(script).exists() => {
            Err(ProgramError::NoSuchFile { path: script.into(), here: folder.to_owned() })
        }
        (ProgramKind::Executable, [program, ..]) if words.iter().any(|word| NO_PYTHON.contains(&word.as_str())) => {
            find_program(OsStr::new(program), path.map(OsStr::new), Some(folder)).map(|_| ())
        }
        (ProgramKind::PythonScript | ProgramKind::PythonModule | ProgramKind::Executable, _) => Ok(()),
    }
}

/// The words behind `torchrun` or `python -m torch.distributed.run`.
fn torchrun_words(command: &[String]) -> Option<&[String]> {
    let (program, words) = command.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    if name == "torchrun" {
        return Some(words);
    }
    let module = words.iter().position(|word| word == MODULE).filter(|at| *at > 0 && words[at - 1] == "-m")?;
    name.starts_with("python").then(|| &words[module + 1..])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_program_of_torchrun_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.py"), "").unwrap();
        let check = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            check(&words, Some("/bin:/usr/bin"), folder.path()).map_err(|error| error.to_string())
        };
        for fine in [
            "torchrun train.py --lr 1",
            "torchrun --nproc-per-node=2 --rdzv-backend c10d --rdzv-endpoint a:1 train.py",
            "/env/bin/python3 -u -m torch.distributed.run --nproc_per_node 2 train.py",
            "torchrun -m package.train",
            "torchrun --no-python sh -c true",
            "torchrun --no-such-option missing.py",
            "python3 missing.py",
            "sh torchrun missing.py",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (missing, message) in [
            ("torchrun --nproc-per-node=2 missing.py", "no program 'missing.py': there is no such file"),
            ("python -m torch.distributed.run missing.py", "no program 'missing.py': there is no such file"),
            ("torchrun --no-python no-such-program", "no command 'no-such-program'"),
        ] {
            let error = check(missing).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
