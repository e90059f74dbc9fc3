//! Below `tutorials/` every file that a tutorial names exists under the tutorial's own path, and is the one that
//! `docs/tutorials/README.md` says.

use std::fs;
use std::path::Path;

use crate::manifest_files::root;

/// The tutorial's path and ours, from the tables of the page.
fn rows() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/tutorials/README.md")).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ["));
    let row = |(path, rest): (&str, &str)| {
        let target = rest.split_once("](../../")?.1.split_once(')')?.0;
        let is_file = [".yaml", ".py"].iter().any(|ending| path.ends_with(ending)) && !path.contains(' ');
        is_file.then(|| (path.to_owned(), target.to_owned()))
    };
    cells.filter_map(row).collect()
}

#[test]
fn every_file_of_a_tutorial_exists_under_its_own_path() {
    let rows = rows();
    assert!(rows.len() > 10, "{rows:?}");
    assert!(rows.iter().filter(|(path, _)| path.ends_with(".py")).count() >= 2, "{rows:?}");
    for (path, target) in rows {
        let system = Path::new(&target).components().nth(1).unwrap();
        let file = root().join("tutorials").join(system).join(&path);
        let found = fs::canonicalize(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(found, fs::canonicalize(root().join(&target)).unwrap(), "{path}");
    }
}

/// The folders that the commands of a tutorial enter, and the packages that they name.
#[test]
fn the_folders_of_the_experiment_exist() {
    for folder in ["doc/autoscale/experiment/python", "demo/recognize_digits"] {
        assert!(root().join("tutorials/edl").join(folder).is_dir(), "{folder}");
    }
}

#[test]
fn no_link_below_the_tutorials_dangles() {
    fn walk(folder: &Path, files: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if path.is_dir() { walk(&path, files) } else { *files += 1 }
        }
    }
    let mut files = 0;
    walk(&root().join("tutorials"), &mut files);
    assert!(files > 10);
}
