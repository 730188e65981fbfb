"""Simulates the kubelets of any number of Nodes in one process."""
