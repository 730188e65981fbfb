"""Kubelets of any number of Nodes in one process: what is played of a node, beside the real one."""
