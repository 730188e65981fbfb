"""The live page: what the running scheduler knows of its units and of nodes, in a browser.

`board.py` keeps the lines of all pods (`pod_line.py`) and nodes (`node_line.py`) as JSON, in two
ledgers (`ledger.py`), while somebody looks; `turns.py` leaves the loop to others meanwhile.
`access.py` says who may see what, by Kubernetes' own reviews. `stream.py` sends each browser the
lines that have changed, `story.py` tells of one pod what the command `explain` tells.
`queue_places.py` tells where waiting pods stand.
`partitions.py` tells what a namespace may ask for: `partition_tally.py` adds up the nodes
(`node_room.py`), `partition_rules.py` reads the policy. `server.py` has the routes and headers, and
`serving.py` opens and closes all of it. `static` is the page.
"""
