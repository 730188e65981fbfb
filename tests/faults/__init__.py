"""Faults between the scheduler and its servers, played by a proxy; nothing may be lost by them."""
