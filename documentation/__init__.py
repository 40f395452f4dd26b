"""Makes the pages of docs/reference from the code: `python -m documentation` or `make reference-pages`."""
