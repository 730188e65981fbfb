"""Slurm's nodes and Kubernetes Nodes: which Node is behind which node, and where a pod may go."""
