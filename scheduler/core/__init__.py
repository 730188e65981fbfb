"""Pure: what is known of a unit goes in, what shall be done comes out. No await, clock, network."""
