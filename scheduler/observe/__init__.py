"""What the process shows of itself (metrics, logs, troubles, delays), and its clock."""
