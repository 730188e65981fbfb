"""The embedded cluster: models of Kubernetes and Slurm that speak the real wire formats."""
