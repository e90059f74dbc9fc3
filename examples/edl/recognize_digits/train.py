"""A trainer that learns to recognize digits: train.py train [OPTION OF flexor worker]…

The job's parameter servers hold the model, and its master hands out the data in batches. MNIST_DATA names the data, a
folder of RecordIO files. Without it each trainer draws the same digits: they depend on the seed alone.
"""
import os
import subprocess
import sys

DRAWN = "/tmp/mnist"


def data():
    if "MNIST_DATA" in os.environ:
        return os.environ["MNIST_DATA"]
    size = ["--records", os.environ.get("MNIST_RECORDS", "60000"), "--records-per-file", "4096"]
    subprocess.run(["flexor", "data", "gen", "digits", "--out", DRAWN, "--if-missing", *size], check=True)
    return DRAWN


def main(words):
    if words[:1] != ["train"]:
        return "train.py: write train.py train"
    try:
        os.execvp("flexor", ["flexor", "worker", "--model=mlp", f"--data={data()}", *words[1:]])
    except OSError as error:
        return f"train.py: flexor cannot be started: {error}; the image of the job needs it"
    except subprocess.CalledProcessError as error:
        return f"train.py: {error}"


sys.exit(main(sys.argv[1:]))
