"""`slurm-pod-scheduler completion SHELL`: a script that lets a shell complete the command line.

`words.py` reads the argument parser, and `bash.py`, `zsh.py` and `fish.py` write scripts from that.
So a script knows exactly the commands and flags of the version that has printed it.
"""
