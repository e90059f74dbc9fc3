//! Programs of this machine as an image needs them: without symbols, and with the shared libraries that they name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::ImageError;

const ELF: [u8; 4] = *b"\x7fELF";

/// The program without symbols and debug information: a tenth of the size of a test build.
pub(crate) fn stripped(path: &Path) -> Result<Vec<u8>, ImageError> {
    check_elf(path)?;
    let folder = tempfile::tempdir().map_err(ImageError::io("create", &std::env::temp_dir()))?;
    let copy = folder.path().join("stripped");
    let output = run("strip", Command::new("strip").arg("--strip-all").arg("-o").arg(&copy).arg(path), path)?;
    if !output.status.success() {
        return Err(failed("strip", path, &output));
    }
    fs::read(&copy).map_err(ImageError::io("read", &copy))
}

/// The dynamic linker and every library that it would load; nothing for a static program.
pub(crate) fn shared_libraries(path: &Path) -> Result<Vec<PathBuf>, ImageError> {
    check_elf(path)?;
    let output = run("ldd", Command::new("ldd").arg(path).env("LC_ALL", "C"), path)?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let is_static = |text: &str| text.contains("not a dynamic executable") || text.contains("statically linked");
    if is_static(&listed) || is_static(&said) {
        return Ok(Vec::new());
    }
    if !output.status.success() {
        return Err(failed("ldd", path, &output));
    }
    read_list(&listed).map_err(|library| ImageError::MissingLibrary { path: path.to_owned(), library })
}

/// The paths in a list of `ldd`, or the name of a library that was not found.
fn read_list(listed: &str) -> Result<Vec<PathBuf>, String> {
    let mut libraries = Vec::new();
    for line in listed.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or(("", line));
        if place == "not found" {
            return Err(name.to_owned());
        }
        // The kernel's own library has no path.
        let file = place.split_whitespace().next().filter(|file| file.starts_with('/'));
        libraries.extend(file.map(PathBuf::from));
    }
    Ok(libraries)
}

fn check_elf(path: &Path) -> Result<(), ImageError> {
    let mut magic = [0; ELF.len()];
    match File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) if magic == ELF => Ok(()),
        Ok(()) => Err(ImageError::NotAProgram { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(ImageError::NotAProgram { path: path.to_owned() })
        }
        Err(error) => Err(ImageError::io("read", path)(error)),
    }
}

fn run(program: &'static str, command: &mut Command, path: &Path) -> Result<Output, ImageError> {
    let missing = |error: io::Error| ImageError::ToolFailed {
        program,
        path: path.to_owned(),
        message: format!("it cannot be started ({error}); Debian has it in binutils or libc-bin"),
    };
    command.output().map_err(missing)
}

fn failed(program: &'static str, path: &Path, output: &Output) -> ImageError {
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ImageError::ToolFailed { program, path: path.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_dynamic_program_has_its_linker_too() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibm.so.6 => /lib/libm.so.6 (0x00007f43)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f43)\n";
        let expected = ["/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(read_list(listed), Ok(expected.to_vec()));
        assert_eq!(read_list("\tlibx.so => not found\n"), Err("libx.so".to_owned()));
    }

    #[test]
    fn this_test_is_a_program_that_gets_smaller() {
        let own = std::env::current_exe().unwrap();
        let bytes = stripped(&own).unwrap();
        assert!(bytes.starts_with(&ELF) && (bytes.len() as u64) < fs::metadata(&own).unwrap().len());
        assert_eq!(bytes, stripped(&own).unwrap());
        assert!(shared_libraries(&own).unwrap().iter().all(|library| library.is_file()));
    }

    #[test]
    fn other_files_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = format!("{} is not a program (ELF file)", file.path().display());
        assert_eq!(stripped(file.path()).unwrap_err().to_string(), message);
        fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(shared_libraries(file.path()).unwrap_err().to_string(), message);
        let missing = stripped(Path::new("/no/such/flexor")).unwrap_err().to_string();
        assert_eq!(missing, "cannot read /no/such/flexor: No such file or directory (os error 2)");
    }
}
