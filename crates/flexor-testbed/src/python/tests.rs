//! Tests with environments of no packages: everything but pip's download.

use super::*;

const EMPTY: Recipe = Recipe {
    name: "empty",
    version: "1",
    requirements: "",
    finish: |site_packages, _| {
        let file = site_packages.join("finished.py");
        fs::write(&file, "answer = 42\n").map_err(io("write", &file))
    },
    finish_texts: &[],
    check: "import finished; assert finished.answer == 42",
    first_time: "a moment",
};

/// `PATH`, where there is a Python in it.
fn search_path() -> Option<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match Interpreter::find(&path) {
        Ok(_) => Some(path),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn without_python_the_error_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let error = ensure(empty.path(), empty.path().as_os_str(), &EMPTY).unwrap_err();
    assert!(matches!(error, PythonError::PythonMissing { .. }), "{error}");
    assert!(error.to_string().contains("python3-venv"), "{error}");
}

#[test]
fn an_environment_works_in_its_final_folder() {
    let Some(path) = search_path() else { return };
    let cache = tempfile::tempdir().unwrap();
    let env = ensure(cache.path(), &path, &EMPTY).unwrap();
    let printed = env.command().args(["-c", "import finished, sys; print(sys.prefix)"]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap().trim(), env.folder().to_str().unwrap());
    // A program with its interpreter's path in the first line.
    let pip = Command::new(env.bin().join("pip")).arg("--version").output().unwrap();
    assert!(String::from_utf8(pip.stdout).unwrap().contains(env.folder().to_str().unwrap()));

    let again = ensure(cache.path(), &path, &EMPTY).unwrap();
    assert_eq!(again.folder(), env.folder());
    let left = fs::read_dir(cache.path()).unwrap().count();
    assert_eq!(left, 2, "only the environment and the lock may stay");
}

#[test]
fn an_environment_that_fails_its_check_is_not_kept() {
    let Some(path) = search_path() else { return };
    let cache = tempfile::tempdir().unwrap();
    let recipe = Recipe { check: "import no_such_module", ..EMPTY };
    let error = ensure(cache.path(), &path, &recipe).unwrap_err().to_string();
    assert!(error.contains("No module named 'no_such_module'"), "{error}");
    let left: Vec<_> = fs::read_dir(cache.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["empty.lock"]);
}

#[test]
fn the_key_changes_with_every_input() {
    let changed = [
        Recipe { requirements: "a==1\n", ..EMPTY },
        Recipe { check: "", ..EMPTY },
        Recipe { finish_texts: &["x"], ..EMPTY },
    ];
    for other in changed {
        assert_ne!(EMPTY.key("3.11.7"), other.key("3.11.7"));
    }
    assert_ne!(EMPTY.key("3.11.7"), EMPTY.key("3.12.1"));
    assert!(EMPTY.key("3.11.7").starts_with("empty-1-"));
}

#[test]
fn only_the_newest_environments_of_the_same_name_stay() {
    let cache = tempfile::tempdir().unwrap();
    let make = |name: &str, hours: u64| {
        let folder = cache.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("pyvenv.cfg"), "").unwrap();
        File::open(&folder)
            .unwrap()
            .set_modified(SystemTime::now() - std::time::Duration::from_secs(3600 * hours))
            .unwrap();
        folder
    };
    let (used, before, old) = (make("empty-1-c", 0), make("empty-1-b", 1), make("empty-1-a", 2));
    let (stranger, killed) = (make("other-1-a", 9), make("unfinished-empty-x", 0));
    prune(cache.path(), "empty", &used);
    assert!(used.exists() && before.exists() && stranger.exists());
    assert!(!old.exists() && !killed.exists());
}

#[test]
fn recipes_pin_every_package_and_are_called_by_the_one_they_are_for() {
    for recipe in [crate::torch::RECIPE, crate::torchft::RECIPE, crate::dlrover::RECIPE, crate::grpc::RECIPE] {
        let packages: Vec<&str> = recipe.requirements.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.iter().all(|line| line.matches("==").count() == 1), "{packages:?}");
        assert!(packages.contains(&&*format!("{}=={}", recipe.name, recipe.version)), "{packages:?}");
    }
}
