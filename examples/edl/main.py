"""Watches jobs of the autoscaling experiment: main.py case1|case2 JOB[,JOB]…, as `flexor experiment watch` does."""
import os
import sys

try:
    os.execvp("flexor", ["flexor", "experiment", "watch", *sys.argv[1:]])
except OSError as error:
    sys.exit(f"main.py: flexor cannot be started: {error}; put it into a folder of PATH")
