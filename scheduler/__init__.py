"""The service: pods on one side, Slurm jobs on the other, kept in agreement."""

__version__ = "0.1.0"
