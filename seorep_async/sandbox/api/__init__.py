"""The service's operations, free of HTTP: what they take, what they answer, and the description of both."""
