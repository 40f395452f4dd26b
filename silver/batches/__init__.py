"""One batch of messages: what it holds, what becomes of it, and what follows from its commit."""
