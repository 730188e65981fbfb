"""Carries out what was decided: whatever is written to Kubernetes or Slurm about a unit."""
