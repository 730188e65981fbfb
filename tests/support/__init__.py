"""What tests share: clusters, clients for the hands of a test, the scheduler as a process."""
