"""The controllers that make objects behave as their kinds promise."""
