"""An agent in a run: it starts `matins mcp` as its tool would, and makes one call after the other."""

import json
import subprocess
import sys

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
program = [sys.executable, "-P", "-m", "matins", "mcp"]
with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bridge:
    assert bridge.stdin
    assert bridge.stdout
    calls = [("initialize", HELLO)]
    calls += [("tools/call", {"name": name, "arguments": given}) for name, given in json.loads(sys.argv[1])]
    for number, (method, params) in enumerate(calls):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        bridge.stdin.write(json.dumps(message) + "\n")
        bridge.stdin.flush()
        sys.stdout.write(bridge.stdout.readline())
    bridge.stdin.close()
