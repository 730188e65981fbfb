"""The controllers without which objects would not do what their kinds promise."""
