"""Files that exist whole or not at all, and outputs that survive any interruption."""
