//! Prepares an environment for a move: its scripts name the folder of their installation.
//!
//! Python itself finds its packages relative to `pyvenv.cfg`. Only the first lines of the programs in `bin` and the
//! `activate` scripts hold an absolute path.

use std::{fs, path::Path};

use super::{PythonError, io};

/// Rewrites the scripts of the environment `folder` for its move to `destination`.
pub(super) fn prepare_move(folder: &Path, destination: &Path) -> Result<(), PythonError> {
    let (from, to) = (folder.to_string_lossy(), destination.to_string_lossy());
    let bin = folder.join("bin");
    let entries = fs::read_dir(&bin).map_err(io("read", &bin))?;
    let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    for path in files.map(|entry| entry.path()).chain([folder.join("pyvenv.cfg")]) {
        // A file that is no text is a binary and holds no path of ours.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if text.contains(&*from) {
            fs::write(&path, text.replace(&*from, &to)).map_err(io("write", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_the_new_folder_and_binaries_are_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        fs::write(bin.join("tool"), format!("#!{}/python\n", bin.display())).unwrap();
        let program = [b"\x7fELF\xff".as_slice(), bin.as_os_str().as_encoded_bytes()].concat();
        fs::write(bin.join("program"), &program).unwrap();
        prepare_move(folder.path(), Path::new("/elsewhere/env")).unwrap();
        assert_eq!(fs::read_to_string(bin.join("tool")).unwrap(), "#!/elsewhere/env/bin/python\n");
        assert_eq!(fs::read(bin.join("program")).unwrap(), program);
    }
}
