"""Hours of churn with faults on real servers (`make soak`)."""
