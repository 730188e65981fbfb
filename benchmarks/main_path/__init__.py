"""The scheduler's main path beside a loop without logic, on the same servers in the same run."""
