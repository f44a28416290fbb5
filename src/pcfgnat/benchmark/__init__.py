"""Side by side: how fast models translate and learn, each in a process of its own, in the same run."""
