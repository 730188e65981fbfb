"""Pure decisions: from what is known of a unit to what shall be done. No await, clock or
network.
"""
