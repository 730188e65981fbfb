"""What the libraries and the service all stand on; knows neither Kubernetes nor Slurm."""
