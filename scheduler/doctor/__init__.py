"""`slurm-pod-scheduler doctor`: looks at Slurm, at Kubernetes and at both together, and says what
is wrong and what helps.

It reads and changes nothing. The modules `read_...` ask the servers, each request with a time
limit. The modules `of_...` are pure: functions from what was read (`facts.py`) to findings.
`checks.py` lists them all, `report.py` prints them.

`nodes.py` is the command that lists nodes; `node_rows.py` makes its rows, `node_table.py` prints
them.
"""
