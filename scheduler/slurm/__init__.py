"""What this process finds out from Slurm: states of jobs, whose they are, how it is set up."""
