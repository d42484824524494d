"""Configurations as the hosts document them, and a way to write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CLAUDE_DESKTOP = {
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Documents"],
        }
    }
}
CLAUDE_CODE = {
    "mcpServers": {
        "api": {
            "type": "http",
            "url": "${API_BASE_URL:-https://api.example.com}/mcp",
            "headers": {"Authorization": "Bearer ${API_KEY}"},
            "timeout": 600000,
            "oauth": {"clientId": "my-client", "callbackPort": 8080},
            "alwaysLoad": True,
        }
    }
}
CURSOR = {
    "mcpServers": {
        "local": {
            "type": "stdio",
            "command": "python",
            "args": ["${workspaceFolder}/server.py"],
            "env": {"API_KEY": "${env:API_KEY}"},
            "envFile": ".env",
        },
        "remote": {
            "url": "https://api.example.com/mcp",
            "auth": {"CLIENT_ID": "my-client", "CLIENT_SECRET": "${SECRET}", "scopes": ["read", "write"]},
        },
    }
}
GEMINI = {
    "theme": "Default",
    "mcpServers": {
        "tools": {
            "command": "python",
            "args": ["-m", "server"],
            "cwd": "./servers",
            "env": {"API_KEY": "$API_KEY"},
            "timeout": 30000,
            "trust": False,
            "includeTools": ["safe_tool"],
            "excludeTools": ["dangerous_tool"],
        },
        "remote": {"httpUrl": "https://api.example.com/mcp", "timeout": 5000},
    },
}
WINDSURF = {
    "mcpServers": {
        "remote": {
            "serverUrl": "https://api.example.com/mcp",
            "headers": {"API_KEY": "Bearer ${env:API_KEY}"},
            "disabledTools": ["delete_everything"],
        }
    }
}
CLINE = {
    "mcpServers": {
        "remote": {
            "type": "streamableHttp",
            "url": "https://api.example.com/mcp",
            "alwaysAllow": ["tool1"],
            "disabled": False,
            "timeout": 60,
        },
        "old": {"url": "https://old.example.com/sse", "type": "sse", "disabled": True, "autoApprove": []},
    }
}
VS_CODE = """{
  // What the user is asked for.
  "inputs": [
    {"type": "promptString", "id": "key", "description": "API key", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
  ],
  "servers": {
    "local": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "server", "--region=${input:region}"], /* both kinds */
      "env": {"API_KEY": "${input:key}", "URL": "http://x//y"},
      "dev": {"watch": "build/**/*.js"},
    },
    "remote": {"type": "http", "url": "https://api.example.com/mcp"}
  }
}
"""
ZED = """{
  "theme": "One Dark", // settings of the editor
  "context_servers": {
    "local": {
      "source": "custom",
      "enabled": true,
      "command": "some-command",
      "args": ["arg-1", "arg-2"],
      "env": {"API_KEY": "a"},
    },
    "remote": {
      "url": "https://example.com/mcp",
      "headers": {"Authorization": "Bearer secret"},
    },
    "of old": {
      "command": {"path": "node", "args": ["server.js"], "env": {"DEBUG": "1"}},
      "settings": {},
    },
    "github": {"source": "extension", "enabled": true, "settings": {"token": "secret"}},
  },
}
"""
COPILOT = {
    "mcpServers": {
        "local": {"type": "local", "command": "npx", "args": ["-y", "server"], "tools": ["*"], "env": {}},
        "remote": {
            "type": "http",
            "url": "https://api.example.com/mcp",
            "headers": {"X-Key": "${API_KEY}"},
            "tools": ["search"],
        },
    }
}
CODEX = """
model = "a-model"

[mcp_servers.local]
command = "npx"
args = ["-y", "server"]
env_vars = ["API_KEY"]
enabled_tools = ["search"]
startup_timeout_sec = 20
tool_timeout_sec = 30.5

[mcp_servers.local.env]
MODE = "fast"

[mcp_servers.remote]
url = "https://api.example.com/mcp"
bearer_token_env_var = "API_KEY"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "API_KEY" }
enabled = false
"""


def write(folder: Path, content: Any, name: str = "mcp.json") -> Path:
    """Write a configuration file and return its path."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def one(**entry: Any) -> dict[str, Any]:
    """Return a configuration with one server, ``here``."""
    return {"mcpServers": {"here": entry}}
