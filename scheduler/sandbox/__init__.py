"""The embedded cluster: models of Kubernetes and of Slurm behind their real wire formats."""
