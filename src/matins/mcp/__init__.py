"""MCP: tools, resources and prompts for agents and their people, over the same use cases as every other surface."""
