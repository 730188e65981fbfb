"""Carries out decisions: everything that is written to Kubernetes or Slurm about a unit."""
