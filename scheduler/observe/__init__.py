"""What the process reports about itself (metrics, logs, troubles, delays), and its clock."""
