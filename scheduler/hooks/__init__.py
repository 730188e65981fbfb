"""The hooks API: what Slurm's hook scripts and placeholders may ask; no answer changes anything."""
