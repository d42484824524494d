"""The content of results: taken apart, saved under safe names, shown in notebooks."""

from __future__ import annotations

import base64
import os
import re
from html.parser import HTMLParser

import pytest

from mcp_sync import FolderRefused, UsageError, types
from mcp_sync.streaming import Progress

PNG = b"\x89PNG\r\n\x1a\n..."
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
SOUND = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "a://b", "name": "b"}


def blob(uri="a://shop/logo.png", mime="image/png", data=IMAGE["data"]):
    return {"type": "resource", "resource": {"uri": uri, "blob": data, "mimeType": mime}}


def note(uri="a://notes/readme.md", text="hello", mime=None):
    return {
        "type": "resource",
        "resource": {"uri": uri, "text": text, **({"mimeType": mime} if mime else {})},
    }


def result(*blocks, **more):
    return types.CallToolResult.model_validate({"content": list(blocks), **more})


def names(paths):
    return [path.name for path in paths]


def test_a_result_is_taken_apart():
    found = result({"type": "text", "text": "hi"}, IMAGE, SOUND, LINK, blob(), note(), {"type": "dance"})
    assert [image.as_bytes() for image in found.images] == [PNG, PNG]
    assert [sound.mime_type for sound in found.audio] == ["audio/wav"]
    assert [resource.uri for resource in found.resources] == ["a://shop/logo.png", "a://notes/readme.md"]
    assert found.resources[0].as_bytes() == PNG
    assert [link.uri for link in found.links] == ["a://b"]
    assert found.text == "hi"


def test_what_was_read_and_prompts_are_taken_apart_likewise():
    read = types.ReadResourceResult.model_validate({"contents": [blob()["resource"], note()["resource"]]})
    assert (len(read.images), len(read.resources), read.links, read.audio) == (1, 2, [], [])
    messages = [{"role": "user", "content": IMAGE}, {"role": "assistant", "content": note()}]
    prompt = types.GetPromptResult.model_validate({"messages": messages})
    assert (len(prompt.images), len(prompt.resources)) == (1, 1)


def test_everything_but_text_is_saved_and_nothing_else_is_there(tmp_path):
    folder = tmp_path / "out"
    found = result({"type": "text", "text": "hi"}, IMAGE, IMAGE, SOUND, blob(), note()).save(folder)
    assert names(found) == ["image-1.png", "image-2.png", "audio-1.wav", "logo.png", "readme.md"]
    assert sorted(os.listdir(folder)) == sorted(names(found))
    assert (folder / "logo.png").read_bytes() == PNG
    assert (folder / "readme.md").read_text() == "hello"


@pytest.mark.parametrize(
    ("uri", "mime", "wanted"),
    [
        ("file:///../../etc/passwd", "text/plain", "passwd.txt"),
        ("a://x/..%2f..%2fevil.sh", "text/plain", "evil.sh.txt"),
        ("a://x/..%5c..%5cevil.exe", "image/png", "evil.exe.png"),
        ("a://x/%2e%2e", "image/png", "_.png"),
        ("a://x/.bashrc", None, "bashrc.bin"),
        ("a://x/CON", "image/png", "_CON.png"),
        ("a://x/nul.txt", "text/plain", "_nul.txt"),
        ("a://x/a%00b.png", "image/png", "a_b.png"),
        ("a://x/photo%E2%80%AEgnp.exe", "image/jpeg", "photo_gnp.exe.jpg"),
        ("a://x/c:stream", "image/png", "c_stream.png"),
        ("a://x/page.html", "text/html; charset=utf-8", "page.html"),
        ("a://x/setup.exe", None, "setup.exe.bin"),
        ("a://x/what", "never/heard", "what.bin"),
        ("nothing", "image/png", "nothing.png"),
        ("a://", "image/png", "resource-1.png"),
        ("demo://readme", "text/markdown", "readme.md"),
        ("demo://..%2f..", "image/png", "_.png"),
        ("a://[broken", "image/png", "resource-1.png"),
        ("a://x/ .. ", "image/png", "_.png"),
    ],
)
def test_names_lead_nowhere_and_end_as_the_type_says(tmp_path, uri, mime, wanted):
    (path,) = result(blob(uri, mime)).save(tmp_path / "out")
    assert path.name == wanted
    assert path.parent == tmp_path / "out"
    assert os.listdir(tmp_path) == ["out"]


def test_long_names_are_cut_and_equal_ones_numbered(tmp_path):
    found = result(blob("a://x/" + "é" * 500), blob("a://x/A.png"), blob("a://y/a.PNG")).save(tmp_path)
    assert len(found[0].name.encode()) < 140
    assert names(found)[1:] == ["A.png", "a-2.PNG"]


def test_nothing_is_overwritten_unless_that_is_asked_for(tmp_path):
    (tmp_path / "logo.png").write_text("mine")
    with pytest.raises(FolderRefused, match="there already"):
        result(IMAGE, blob()).save(tmp_path)
    assert os.listdir(tmp_path) == ["logo.png"]
    assert (tmp_path / "logo.png").read_text() == "mine"
    result(blob()).save(tmp_path, overwrite=True)
    assert (tmp_path / "logo.png").read_bytes() == PNG


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "logo.png").symlink_to(outside)
    with pytest.raises(FolderRefused):
        result(blob()).save(folder)
    result(blob()).save(folder, overwrite=True)
    assert outside.read_text() == "mine"
    assert not (folder / "logo.png").is_symlink()


def test_a_file_that_comes_meanwhile_is_not_overwritten_either(tmp_path, monkeypatch):
    (tmp_path / "logo.png").write_text("mine")
    monkeypatch.setattr("mcp_sync.types._saving._check", lambda *args: None)
    with pytest.raises(FolderRefused, match="nothing was saved"):
        result(IMAGE, blob()).save(tmp_path)
    assert os.listdir(tmp_path) == ["logo.png"]
    assert (tmp_path / "logo.png").read_text() == "mine"


def test_what_is_too_large_is_not_written(tmp_path):
    for limit in (0, 1, 20, 2 * len(PNG) - 1):
        with pytest.raises(FolderRefused, match="larger than"):
            result(IMAGE, blob()).save(tmp_path / "out", limit=limit)
    with pytest.raises(FolderRefused, match="larger than"):
        result({**IMAGE, "data": "A" * 4_000_000}).save(tmp_path / "out", limit=1_000_000)
    assert os.listdir(tmp_path) == []
    assert len(result(IMAGE, blob()).save(tmp_path / "out", limit=2 * len(PNG))) == 2
    with pytest.raises(UsageError, match="limit"):
        result(IMAGE).save(tmp_path, limit=True)


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"base64|character|padding"):
        result(IMAGE, {**IMAGE, "data": "!!!"}).save(tmp_path / "out")
    with pytest.raises(FolderRefused, match="make it first"):
        result(IMAGE).save(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderRefused, match="no folder"):
        result(IMAGE).save(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


# --- notebooks ---------------------------------------------------------------------------------

HOSTILE = (
    "<script>boom()</script><img src=x onerror=boom()>\" ' onload=boom() "
    "$\\href{javascript:boom()}{x}$ \u202e"
)
HARMLESS = {
    *("div", "p", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "strong", "img", "audio", "progress", "span"),
}
SOURCE = re.compile("data:(?:image|audio)/[a-z0-9-]+;base64,[A-Za-z0-9+/=]*")


class Checker(HTMLParser):
    """Refuses every element and attribute that is not ours."""

    def handle_starttag(self, tag, attrs):
        assert tag in HARMLESS
        for name, value in attrs:
            assert name in ("style", "class", "src", "alt", "controls", "value", "max")
            assert name != "src" or SOURCE.fullmatch(value)


def odd(kind, **fields):
    return {"type": kind, **fields}


@pytest.mark.parametrize(
    "shown",
    [
        result(odd("text", text=HOSTILE), structuredContent={HOSTILE: HOSTILE}, isError=True),
        result(odd("image", data=HOSTILE, mimeType="image/png"), odd("image", data="AAAA", mimeType=HOSTILE)),
        result(odd("image", data="AAAA", mimeType='image/png" onerror="boom()')),
        result(odd("image", data="PHN2Zz4=", mimeType="image/svg+xml")),
        result(odd("audio", data="AAAA", mimeType=HOSTILE)),
        result(odd("resource_link", uri="javascript:boom()", name=HOSTILE, title=HOSTILE), odd(HOSTILE)),
        result(blob(HOSTILE, HOSTILE), note(HOSTILE, HOSTILE), odd("text"), odd("resource"), odd("image")),
        types.ReadResourceResult.model_validate({"contents": [note(HOSTILE, HOSTILE)["resource"]]}),
        types.GetPromptResult.model_validate(
            {"messages": [{"role": HOSTILE, "content": odd("text", text=HOSTILE)}]}
        ),
        types.Tool(
            name=HOSTILE, title=HOSTILE, description=HOSTILE,
            input_schema={
                "properties": {HOSTILE: {"type": HOSTILE, "description": HOSTILE}, "a": 1}, "required": 1},
        ),
        Progress(1, 3, HOSTILE),
        Progress(1, 0, None),
        types.Tool(name="a", input_schema={"properties": [HOSTILE]}),
        types.ListToolsResult(tools=[types.Tool(name=HOSTILE, description=HOSTILE, input_schema={})] * 300),
        types.ListResourcesResult(resources=[types.Resource(uri=HOSTILE, name=HOSTILE)]),
        types.ListResourceTemplatesResult(
            resource_templates=[types.ResourceTemplate(uri_template=HOSTILE, name=HOSTILE)]
        ),
        types.ListPromptsResult(prompts=[types.Prompt(name=HOSTILE, description=HOSTILE)]),
    ],
)  # fmt: skip
def test_nothing_of_a_server_runs_in_a_notebook(shown):
    page = shown._repr_html_()
    Checker().feed(page)
    assert page.startswith('<div class="mathjax_ignore tex2jax_ignore">')
    assert "\u202e" not in page


def test_images_and_sounds_are_shown_in_notebooks():
    page = result(IMAGE, SOUND, blob())._repr_html_()
    assert page.count(f"data:image/png;base64,{IMAGE['data']}") == 2
    assert "<audio controls" in page


def test_progress_is_a_bar():
    page = Progress(1, 4, "reading")._repr_html_()
    assert '<progress value="1" max="4">' in page
    assert "1 of 4 reading" in page
    assert "<progress >" in Progress(7)._repr_html_()


def test_a_field_of_a_server_does_not_replace_what_notebooks_ask_for():
    found = result(IMAGE, _repr_html_="<script>", images=[1], save="x")
    assert "<script>" not in found._repr_html_()
    assert len(found.images) == 1
    assert found.to_wire()["images"] == [1]
