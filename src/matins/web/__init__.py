"""The page: views rendered on the server from the results of use cases."""
