"""What the library advises, in the words of the command line: what can be typed, not arguments of Python."""

from __future__ import annotations

import re

# What the library says, and what takes its place. A group of the first may stand in the second.
PHRASES = (
    (r": name another folder, or overwrite=True", ": name another folder"),
    (r", or overwrite=True", ", or --overwrite"),
    (r": raise limit=", ": --json prints all of it"),
    (r"the connection to .+ was not open\b", "the server was not ready"),
    (r" \(Timeouts\.silence;[^)]*\)", "; --timeout SECONDS gives it more time"),
    (r" \(Timeouts\.open\)", "; --timeout SECONDS gives it more time"),
    (r" \((?:Limits\.\w+|Retry\.listen|ping_interval)\)", ""),
    (r", for which no callback is set(?:: .*)?", ", which this command cannot answer"),
    (r"\bmode='?([\w-]+(?:\.[\w-]+)*)'?", r"--mode \1"),
    (r"; None means no bound", ""),
    (r", or allow_http=True if you must", ""),
    (r"; see allow_private", ""),
    (r" \(interactive=False\), or nobody is there", " by this command"),
    (r": give dpop=True", ": mcp-sync login --dpop"),
    (r"; issuer= says", "; --issuer says"),
    (r"its client_id \(with its client_secret,", "--client-id (with --client-secret-env,"),
    (r"reset_client\(\) has it register anew", "mcp-sync login --new-client has it register anew"),
    (r": see LoopbackBrowser", ": --port PORT sets its port"),
    (r"give credentials by headers= or auth=", "give credentials by --header, or log in"),
    (r"arguments go into a list of their own: Stdio.*", "do not quote it together with its arguments"),
    (r"\bmax_(?:bytes|files) is ", "the limit is "),
    (r": read\(\) what you need", ": read what you need by mcp-sync skills read"),
    (r": pass inputs=\{.*?\}", ": it is asked for only where there is a terminal"),
    (r": answer `requests` of its handle with update\(\)", ""),
)


def in_words(text: str) -> str:
    """Return the message of an error as the command line says it."""
    for pattern, words in PHRASES:
        text = re.sub(pattern, words, text)
    return text
