//! What is launched: any program, with Python put before it where it is Python.

use super::{given::Given, table};

/// What is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What kind it is.
    pub kind: ProgramKind,
    /// The words to execute, the first of which is the executable.
    pub argv: Vec<String>,
}

/// What kind of program is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// A Python script: its name ends in `.py`, or `--run-path` says so.
    PythonScript,
    /// A Python module: `-m` says so.
    PythonModule,
    /// Anything else: it is executed itself.
    Executable,
}

/// Python where `PYTHON_EXEC` names none.
const PYTHON: &str = "python3";

impl Program {
    /// What a command line means by these words, of which there is at least one. None where its flags exclude each
    /// other.
    pub(super) fn of(words: Vec<String>, given: &Given<'_>) -> Option<Self> {
        let [module, no_python, run_path] =
            [&table::MODULE, &table::NO_PYTHON, &table::RUN_PATH].map(|spec| given.flag(spec));
        let named_python = words.first().is_some_and(|name| name.ends_with(".py"));
        let kind = match (run_path, module, no_python) {
            (true, _, _) => ProgramKind::PythonScript,
            (false, true, true) => return None,
            (false, true, false) => ProgramKind::PythonModule,
            (false, false, true) => ProgramKind::Executable,
            (false, false, false) if named_python => ProgramKind::PythonScript,
            (false, false, false) => ProgramKind::Executable,
        };
        // Unbuffered, so that the last words of a process that is killed are seen.
        let before: &[&str] = match kind {
            ProgramKind::PythonScript => &["-u"],
            ProgramKind::PythonModule => &["-u", "-m"],
            ProgramKind::Executable => return Some(Self { kind, argv: words }),
        };
        let python = given.variable("PYTHON_EXEC").filter(|path| !path.is_empty()).unwrap_or(PYTHON);
        let argv = [python].iter().chain(before).map(|&word| word.to_owned()).chain(words).collect();
        Some(Self { kind, argv })
    }
}
