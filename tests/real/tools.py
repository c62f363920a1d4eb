"""The tools that `make test-real` installs and drives, and how each is pointed at the endpoints on this machine."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_MACHINE = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
_SYSTEM = f"{platform.system().lower()}-{_MACHINE}"
NODE = "node@24.21.0"
"""Two of the tools need Node 22; the package brings one where the machine's is older."""
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
OIDC_PROVIDER = "oidc-provider@9.8.0"
KEY = "sk-fake-0123456789"
"""The secret with which tools come to the endpoints."""
PRICES = {"input": "$1", "output": "$10", "cached": "$0.1"}
"""For a million tokens of `fake-model`, for tools that report no cost."""
Settings = Callable[[str], Mapping[str, str]]
"""From the address of the endpoints to texts by name."""


def _nothing(url: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Tool:
    name: str
    package: str
    version: str
    program: str
    """Its path in node_modules."""
    environment: Settings
    files: Settings = _nothing
    """Files in its home, by path."""
    model: str | None = None
    permissive: str | None = None
    """The permission mode in which it uses its tools unasked."""
    silence_s: int = 12
    """How long it may be silent where a provider refuses: longer than it takes to begin."""

    @property
    def release(self) -> str:
        return f"{self.name}-{self.version}"


def _claude(url: str) -> Mapping[str, str]:
    quiet = dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"), "1")
    return {**quiet, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "env:FAKE_KEY"}


def _codex_files(url: str) -> Mapping[str, str]:
    config = f"""
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "CODEX_FAKE_KEY"
wire_api = "responses"
[analytics]
enabled = false
"""
    return {".codex/config.toml": config}


def _gemini_files(url: str) -> Mapping[str, str]:
    general = {"disableAutoUpdate": True, "enableAutoUpdate": False}
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    document = {**auth, "general": general, "privacy": {"usageStatisticsEnabled": False}}
    return {".gemini/settings.json": json.dumps(document)}


def _goose(url: str) -> Mapping[str, str]:
    quiet = {"GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}
    return {**quiet, "GOOSE_PROVIDER": "openai", "OPENAI_HOST": url, "OPENAI_API_KEY": "env:FAKE_KEY"}


def _opencode(url: str) -> Mapping[str, str]:
    cost = {"input": 1, "output": 10, "cache_read": 0.1, "cache_write": 1}
    model = {"name": "fake-model", "cost": cost, "limit": {"context": 2_000_000, "output": 500_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:OPENCODE_FAKE_KEY}"},
        "models": {"fake-model": model},
    }
    config = {"provider": {"fake": provider}, "autoupdate": False, "share": "disabled"}
    names = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
    return {
        **dict.fromkeys(names, "1"),
        "OPENCODE_FAKE_KEY": "env:FAKE_KEY",
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
    }


def _qwen_files(url: str) -> Mapping[str, str]:
    document = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return {".qwen/settings.json": json.dumps(document)}


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "claude",
            "@anthropic-ai/claude-code",
            "2.1.325",
            ".bin/claude",
            _claude,
            permissive="bypassPermissions",
        ),
        Tool(
            "codex",
            "@openai/codex",
            "0.166.0",
            ".bin/codex",
            lambda url: {"CODEX_FAKE_KEY": "env:FAKE_KEY"},
            _codex_files,
            model="fake-model",
        ),
        Tool(
            "gemini",
            "@google/gemini-cli",
            "0.61.0",
            ".bin/gemini",
            lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "env:FAKE_KEY"},
            _gemini_files,
            model="gemini-3.8-flash",
            permissive="yolo",
            silence_s=20,
        ),
        Tool(
            "goose",
            f"@aaif/goose-binary-{_SYSTEM}",
            "1.52.0",
            f"@aaif/goose-binary-{_SYSTEM}/bin/goose",
            _goose,
            model="fake-model",
        ),
        Tool(
            "opencode",
            "opencode-ai",
            "1.18.33",
            ".bin/opencode",
            _opencode,
            model="fake/fake-model",
            permissive="auto",
            silence_s=40,
        ),
        Tool(
            "qwen",
            "@qwen-code/qwen-code",
            "0.24.4",
            ".bin/qwen",
            lambda url: {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "env:FAKE_KEY"},
            _qwen_files,
            model="fake-model",
            permissive="yolo",
            silence_s=30,
        ),
    )
}
