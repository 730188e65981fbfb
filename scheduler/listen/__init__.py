"""The ports that this process opens: who may connect, how many at once, and for how long."""
