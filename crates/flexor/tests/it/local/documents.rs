//! Checks that the outputs in the documents are what `flexor` prints.

use std::{fs, path::Path};

use crate::program::{ProgramOutput, flexor, root};

const REFUSED: &str = "\
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata:
  name: mnist
spec:
  minReplica: 1
  maxReplicas: 4
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: worker
              image: mnist:latest
              resources:
                requests: {cpu: 1}
                limits:
                  memory: 4 Gi
";

/// Runs the command in the first `console` block of a document and compares its output with the block.
fn first_console_block_is_true(document: &str, folder: &Path) {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let block = text.split("```console\n$ flexor ").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (args, shown) = block.split_once('\n').unwrap();
    let args: Vec<&str> = args.split_whitespace().collect();
    let ran = ProgramOutput::from(flexor(&args).current_dir(folder).output().unwrap());
    assert_eq!(format!("{}{}", ran.stdout, ran.stderr), shown, "{document}");
}

#[test]
fn the_guide_shows_what_is_printed() {
    first_console_block_is_true("docs/guide/validate.md", &root());
}

#[test]
fn the_readme_shows_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.yaml"), REFUSED).unwrap();
    first_console_block_is_true("README.md", folder.path());
}
