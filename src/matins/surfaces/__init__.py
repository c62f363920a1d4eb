"""The surfaces for people and programs. Each translates a request, calls the service, and translates the result."""
