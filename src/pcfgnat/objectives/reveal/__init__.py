"""What training shows of the target before the network has to produce it."""
