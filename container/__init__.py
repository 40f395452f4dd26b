"""What the container image is built with."""
