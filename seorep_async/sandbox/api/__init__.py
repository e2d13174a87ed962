"""The service's operations, free of HTTP: requests, responses, and the description of both."""
