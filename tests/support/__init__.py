"""What tests share: clusters, clients of their servers, and the scheduler as a process."""
