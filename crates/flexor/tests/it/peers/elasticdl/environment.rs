//! Installs Python 3.7 packages of ElasticDL's release into the cache, once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flexor_testbed::cache_dir;

use crate::program::root;

/// All packages, with those they need: pip adds none.
const REQUIREMENTS: &str = include_str!("requirements.txt");
const NAME: &str = "elasticdl-0.2.0rc2-python3.7";

/// The environment.
pub(super) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// From the cache, installed first where it is missing; the error names what this machine lacks.
    pub(super) fn ensure() -> Result<Self, String> {
        let cache = cache_dir().map_err(|error| error.to_string())?;
        let folder = cache.join(NAME);
        let python = folder.join("bin/python");
        let is_installed = fs::read_to_string(folder.join("requirements.txt")).is_ok_and(|list| list == REQUIREMENTS);
        if !is_installed {
            let interpreter = python_3_7().ok_or("ElasticDL's worker needs Python 3.7, of which there is none here")?;
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&cache).unwrap();
            eprintln!("installing ElasticDL 0.2.0rc2 … (first time only, about 2 minutes and 640 MB)");
            done(Command::new(interpreter).args(["-m", "venv"]).arg(&folder).output().unwrap());
            let list = folder.join("packages");
            fs::write(&list, REQUIREMENTS).unwrap();
            let pip = |arguments: &[&str]| {
                let mut pip = Command::new(&python);
                pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]).args(arguments);
                done(pip.output().unwrap());
            };
            // The pip of that Python does not know wheels of the years after it.
            pip(&["pip==23.3.2"]);
            pip(&["-r", list.to_str().unwrap()]);
            // Last: without this file the environment is installed again.
            fs::rename(list, folder.join("requirements.txt")).unwrap();
        }
        Ok(Self { python })
    }

    /// Its Python, in the folder of our scripts, as ElasticDL's pods run it.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let scripts = root().join("crates/flexor/tests/it/peers/elasticdl");
        let mut command = Command::new(&self.python);
        command.args(arguments).arg("--model_zoo").arg(&scripts).current_dir(&scripts);
        command.env("PYTHONPATH", &scripts).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        command.env("MY_POD_IP", "127.0.0.1").env("CUDA_VISIBLE_DEVICES", "");
        command
    }
}

fn done(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Python 3.7 in `$PATH`, or among those of pyenv.
fn python_3_7() -> Option<PathBuf> {
    let in_path = env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join("python3.7")).collect::<Vec<_>>();
    let pyenv = env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".pyenv")))?;
    let versions = fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let of_pyenv = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("3.7."));
    let candidates = in_path.into_iter().chain(of_pyenv.map(|entry| entry.path().join("bin/python3.7")));
    // A shim of pyenv's exists even where it has nothing to run.
    let runs = |python: &PathBuf| {
        Command::new(python).args(["-c", "import venv, ensurepip"]).output().is_ok_and(|output| output.status.success())
    };
    candidates.filter(|python| python.is_file()).find(runs)
}
