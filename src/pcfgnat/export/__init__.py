"""Models in the formats that other run times load."""
