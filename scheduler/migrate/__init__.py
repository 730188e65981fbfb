"""`slurm-pod-scheduler migrate`: what would change in manifests that were written for another
scheduler, SUNK's or slurm-bridge.

`documents.py` reads a file. `plan.py` decides, without the text: `bridge.py` and `values.py` have
its tables, nearly all for slurm-bridge: SUNK's annotations stay as they are. `edit.py` carries the
changes out in the text, so that comments and order stay. `command.py` reads, prints and writes
files.
"""
