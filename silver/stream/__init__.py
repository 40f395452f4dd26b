"""The stream over bronze between two runs: its checkpoint, and messages that are taken up later."""
