"""What runs a network: torch, or onnxruntime without torch."""
