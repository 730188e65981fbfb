"""What people see of their pods, from the pods alone: with their own kubeconfig and rights.

`row.py` reads a pod, `listing.py` gets all pods in pages and watches them, `choice.py` filters and
sorts. `output.py` has the forms; for terminals `table.py` lays text out and `safe_text.py` makes it
harmless. `queue.py` is the command; `connection.py` opens the session and says in one line why that
fails.
"""
