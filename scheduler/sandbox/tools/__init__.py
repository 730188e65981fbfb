"""squeue, sinfo, scancel and sbatch for the sandbox: small clients of its slurmrestd.

Slurm's own commands speak the protocol of slurmctld, which the sandbox does not. These take the
options that people use most, and print what Slurm's own print. They know slurmrestd alone, so a
contract test compares them with Slurm's own on the real server.
"""
