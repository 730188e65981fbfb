"""The hooks API for Slurm's hook scripts and for placeholders. No request changes anything."""
