"""What this process finds out from Slurm: states of jobs, who owns them, and Slurm's
configuration.
"""
