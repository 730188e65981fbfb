"""What people see of their pods, from the pods and, if they name it, the scheduler's page: with
their own kubeconfig and rights.

`row.py` reads a pod, `listing.py` gets all pods in pages and watches them, `choice.py` filters and
sorts. `output.py` has the forms; for terminals `table.py` lays text out and `safe_text.py` makes it
harmless. `queue.py` is the command; `connection.py` opens the session, `calling.py` runs a command
and says in one line why it fails, `site.py` has the flags.

`explain.py` is the command about one pod. `seen.py` reads the pod, its Events and its controller,
`story.py` puts together what `asked.py`, `history.py` and `prospect.py` make of that, and
`telling.py` has its forms.

`partitions.py` is the command about what may be asked for. `page_client.py` asks the scheduler's
page, at the address that `page_address.py` reads; without it `partitions_of_pods.py` tells what
pods show. `partition_row.py` has the fields, `partition_table.py` the table. `queue_place.py` has
those of a place in the queue, `surroundings.py` what the page adds to a story.
"""
