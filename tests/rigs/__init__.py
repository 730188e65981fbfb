"""The real servers, started for a test session: Kubernetes and Slurm."""
