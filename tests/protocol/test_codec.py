"""Messages as bytes: what is written, what is refused, what is read of odd ones."""

from __future__ import annotations

import enum
import json
import math
import random
import sys
from datetime import datetime
from typing import Any, Optional

import pytest
from pydantic import BaseModel, Field

from mcp_sync._protocol import codec
from mcp_sync._protocol.codec import decode, encode, encode_request, meta_ending
from mcp_sync.errors import InvalidMessage, UsageError

# Since Python 3.14 it is the stack that bounds recursion in C: 8 MiB have room for some 65,000 levels.
TOO_DEEP = 300_000


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


# --- encode ----------------------------------------------------------------------------------------------


def test_a_message_becomes_compact_utf8_json() -> None:
    assert encode({"a": [1, 2.5, True, None], "b": "é世"}) == '{"a":[1,2.5,true,null],"b":"é世"}'.encode()


@pytest.mark.parametrize("params", [{"a": {}}, {"a": "}}", "b": "\u2028é"}])
@pytest.mark.parametrize("meta", [{}, {"k": {"é\x85": [1]}}])
@pytest.mark.parametrize("method", ["tools/call", 'odd"\u2028\nmethod'])
def test_an_ending_that_was_written_before_makes_the_same_request(
    params: Any, meta: Any, method: str
) -> None:
    whole = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    assert encode_request(1, method, params, meta_ending(meta)) == encode(whole)


def test_a_request_may_have_no_meta() -> None:
    params = {"a": {"b": "}}"}}
    whole = {"jsonrpc": "2.0", "id": 1, "method": "x", "params": params}
    assert encode_request(1, "x", params, meta_ending()) == encode(whole)


def test_a_request_that_cannot_be_written_names_the_path() -> None:
    with pytest.raises(UsageError, match=r"params\.arguments\.a\[1\]: .*set"):
        encode_request(1, "tools/call", {"arguments": {"a": [1, {2}]}}, meta_ending({}))


def test_a_request_whose_method_cannot_be_written_says_so() -> None:
    with pytest.raises(UsageError, match=r"^method: lone surrogate U\+D800"):
        encode_request(1, "\ud800", {"a": 1}, meta_ending({}))


def test_json_is_the_same_without_the_encoder_written_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    message = {"a": [1, 2.5, True, None, "é\u2028"], "b": {}}
    data = encode(message)
    monkeypatch.setattr(codec, "_written", codec._ENCODER.encode)
    assert encode(message) == data


def test_no_line_end_of_any_kind_stands_in_the_bytes() -> None:
    text = "".join(map(chr, range(0x100))) + "\u2028\u2029"
    data = encode({text: text})
    assert b"\n" not in data
    assert len(data.decode().splitlines()) == 1
    assert decode(data) == {text: text}


@pytest.mark.parametrize("key", [1, 2.5, True, None])
def test_keys_that_json_turns_into_strings_are_allowed(key: Any) -> None:
    assert json.loads(encode({key: 1})) == json.loads(json.dumps({key: 1}))


def test_a_tuple_becomes_an_array() -> None:
    assert encode({"a": (1, (2,))}) == b'{"a":[1,[2]]}'


def test_members_of_enumerations_are_written_as_their_values() -> None:
    class Color(str, enum.Enum):
        RED = "red"

    class Size(enum.IntEnum):
        BIG = 3

    assert encode({"c": Color.RED, "s": Size.BIG}) == b'{"c":"red","s":3}'


class Trip(BaseModel):
    leave_at: datetime = Field(alias="leaveAt")
    seats: int = 1


def test_pydantic_models_are_dumped_by_alias_at_any_depth() -> None:
    trip = Trip(leaveAt=datetime(2026, 7, 28))
    assert json.loads(encode({"params": {"arguments": {"trips": [trip]}}})) == {
        "params": {"arguments": {"trips": [{"leaveAt": "2026-07-28T00:00:00", "seats": 1}]}}
    }


class Wire:
    def __init__(self, value: Any) -> None:
        self.value = value

    def to_wire(self) -> Any:
        return self.value


def test_an_object_with_to_wire_is_written_by_it() -> None:
    assert encode({"a": Wire({"b": Wire([1])})}) == b'{"a":{"b":[1]}}'


def test_to_wire_of_a_model_goes_before_its_dump() -> None:
    class Own(BaseModel):
        x: int = 1

        def to_wire(self) -> dict[str, Any]:
            return {"y": 2}

    assert encode({"a": Own()}) == b'{"a":{"y":2}}'


class Endless:
    def to_wire(self) -> Any:
        return [Endless()]


def circular() -> dict[str, Any]:
    params: dict[str, Any] = {}
    params["arguments"] = {"again": [params]}
    return {"params": params}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            {"params": {"arguments": {"when": datetime(2026, 1, 1)}}},
            "params.arguments.when: datetime is not JSON",
        ),
        ({"a": [0, {"b c": math.nan}]}, "a[1]['b c']: nan is not JSON"),
        ({"a": math.inf}, "a: inf is not JSON"),
        ({"a": [-math.inf]}, "a[0]: -inf is not JSON"),
        ({"a": "x\ud800"}, "a: lone surrogate U+D800 cannot be written as UTF-8"),
        ({"a": {"\udfff": 1}}, "a: key '\\udfff': lone surrogate U+DFFF cannot be written as UTF-8"),
        ({"a": {(1, 2): 3}}, "a: a key is a tuple, which is not JSON: (1, 2)"),
        ({"a": {math.nan: 3}}, "a: key nan: nan is not JSON"),
        ({"a": {1, 2}}, "a: set is not JSON"),
        ({"a": b"x"}, "a: bytes is not JSON"),
        ({"a": Trip}, "a: ModelMetaclass is not JSON"),
        ({"a": Wire({"b": object()})}, "a.b: object is not JSON"),
        ({1: {None: {"x": set()}}}, "[1][None].x: set is not JSON"),
        (circular(), "params.arguments.again[0]: the value contains itself"),
        ({"a": Endless()}, "nested too deeply for JSON"),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_its_path(message: dict[Any, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        encode(message)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(UsageError, match="nested too deeply for JSON") as caught:
        encode({"a": nested(TOO_DEEP)})
    assert len(str(caught.value)) < 500


def test_what_holds_itself_is_not_written_over_and_over() -> None:
    asked = []

    class Circle:
        def to_wire(self) -> Any:
            asked.append(self)
            return {"all of it": self}

    with pytest.raises(UsageError, match=r"^a\['all of it'\]: the value contains itself$"):
        encode({"a": Circle()})
    # Once by the encoder, and by the search for the path.
    assert len(asked) <= 3


def test_an_integer_beyond_the_limit_of_python_is_refused_with_its_path() -> None:
    with pytest.raises(UsageError, match=r"^a\[0\]: "):
        encode({"a": [10**5000]})


def test_a_model_that_cannot_be_dumped_is_refused_with_its_path() -> None:
    class Holder(BaseModel):
        thing: Any = None

    with pytest.raises(UsageError, match=r"^a: Holder is not JSON: "):
        encode({"a": Holder(thing=object())})


def test_the_same_object_twice_is_no_circle() -> None:
    shared = {"x": 1}
    with pytest.raises(UsageError, match=r"^c: set"):
        encode({"a": shared, "b": [shared, shared], "c": set()})


def random_value(source: random.Random, depth: int = 0) -> Any:
    choice = source.randrange(8 if depth < 4 else 6)
    if choice == 0:
        return source.choice([None, True, False])
    if choice == 1:
        return source.randrange(-(10**30), 10**30)
    if choice == 2:
        return source.uniform(-1e9, 1e9)
    if choice < 6:
        letters = 'ab\\"/\n\r\t\x00\x7f\x85\u2028é世😀\ufeff\ufffd{}[]'
        return "".join(source.choice(letters) for _ in range(source.randrange(12)))
    if choice == 6:
        return [random_value(source, depth + 1) for _ in range(source.randrange(5))]
    return {str(random_value(source, 9)): random_value(source, depth + 1) for _ in range(source.randrange(5))}


def test_whatever_is_written_can_be_read_again() -> None:
    source = random.Random(20260728)
    for _ in range(2000):
        message = {"value": random_value(source)}
        data = encode(message)
        assert decode(data) == message
        assert json.loads(data) == message


# --- decode ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [bytes, bytearray, lambda data: data.decode()])
def test_every_form_of_input_is_read(form: Any) -> None:
    assert decode(form('{"a":"é"}'.encode())) == {"a": "é"}


@pytest.mark.parametrize("data", [b'\xef\xbb\xbf{"a":1}', '\ufeff{"a":1}', b'\r\n {"a":1} \r\n'])
def test_a_byte_order_mark_and_space_around_are_dropped(data: Any) -> None:
    assert decode(data) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\uDC00x"', "\ufffdx"),
        (b'"\\ud800\\ud800\\udc00"', "\ufffd\U00010000"),
        (b'"\\udc00\\ud800"', "\ufffd\ufffd"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"\\\\\\ud800"', "\\\ufffd"),
        (b'"\\ud800\\n\\ud7ff\\ue000"', "\ufffd\n\ud7ff\ue000"),
        (b'{"\\ud800":1}', {"\ufffd": 1}),
        ('"\ud800"', "\ufffd"),
        ('"\ud83d\\ud800"', "\ufffd\ufffd"),
    ],
)
def test_lone_surrogates_become_the_replacement_character(data: Any, value: Any) -> None:
    assert decode(data) == value
    json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":"\xc3\x28"}', {"a": "\ufffd("}),
        (b'{"a":"\xff\xfe","b":"\xc3\xa9"}', {"a": "\ufffd\ufffd", "b": "é"}),
        (b'{"a":"\xe4\xb8"}', {"a": "\ufffd"}),
        (b'{"a":"\xed\xa0\x80"}', {"a": "\ufffd\ufffd\ufffd"}),
        (b'{"a":"\xff\\ud800"}', {"a": "\ufffd\ufffd"}),
    ],
)
def test_bytes_that_are_no_utf8_are_replaced_within_a_valid_message(data: bytes, value: Any) -> None:
    assert decode(data) == value


@pytest.mark.parametrize("mark", [b"\\ud800", b"\\uDFFF", b"\xff", b"\xed\xa0\x80"])
@pytest.mark.parametrize("name", ["requestState", "taskId"])
def test_what_is_sent_back_as_it_came_is_not_mended(name: str, mark: bytes) -> None:
    template = b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"%s":"a%sz","text":"a%sz"}}'
    result = decode(template % (name.encode(), mark, mark))["result"]
    assert "\ufffd" in result["text"]
    # Refused wherever it would be sent, instead of something else in its place.
    with pytest.raises(UsageError, match="lone surrogate"):
        encode({"params": {name: result[name]}})
    # What is whole stays what it was, in a message that is not.
    whole = b'{"id":1,"result":{"%s":"\xc3\xa9\\ud83d\\ude00","text":"%s"}}' % (name.encode(), mark)
    assert decode(whole)["result"][name] == "é\U0001f600"


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="there is no limit that could be set")
def test_what_cannot_be_known_exactly_is_no_message() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidMessage) as caught:
            decode(b'{"id":7,"result":{"requestState":"s","x":"\\ud800","n":%s}}' % (b"9" * 1000))
    finally:
        sys.set_int_max_str_digits(limit)
    assert caught.value.request_id == 7


def test_keys_under_which_a_server_asks_are_not_mended() -> None:
    template = b'{"id":1,"result":{"inputRequests":{"%s":{"method":"roots/list","x":"\\ud800"}}}}'
    asked = decode(template % b"\\ud800")["result"]["inputRequests"]
    assert list(asked) == ["\ud800"]
    asked = decode(template % b"k")["result"]["inputRequests"]
    assert asked == {"k": {"method": "roots/list", "x": "\ufffd"}}


def test_line_ends_of_unicode_arrive_as_they_were_sent() -> None:
    assert decode('{"t":"before\u2028after\u0085end"}'.encode()) == {"t": "before\u2028after\u0085end"}


def test_nan_and_infinities_are_tolerated() -> None:
    value = decode(b"[NaN,Infinity,-Infinity,1e999]")
    assert math.isnan(value[0])
    assert value[1:] == [math.inf, -math.inf, math.inf]


def test_large_integers_keep_their_value() -> None:
    assert decode(b'{"n":%d}' % 10**400) == {"n": 10**400}


def test_of_two_equal_keys_the_later_counts() -> None:
    assert decode(b'{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  ",
        b"\xff\xfe\n",
        b"Server listening on port 3000",
        b'{"a":1} trailing',
        b'{"a":1',
        b"{'a':1}",
        b'"\\u12"',
        b'"\\ud8"',
        b'"a\nb"',
        b"01",
        b"undefined",
        "",
    ],
)
def test_what_is_not_json_is_an_invalid_message(data: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"^what arrived is not JSON: "):
        decode(data)


def test_an_invalid_message_has_a_short_excerpt_that_can_be_printed() -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(b"\xef\xbb\xbfoops \xff " + b"x" * 1000)
    assert caught.value.excerpt == "oops \ufffd " + "x" * 193
    assert len(caught.value.excerpt) == 200
    caught.value.excerpt.encode()


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_too_deep_is_an_invalid_message(opening: bytes) -> None:
    with pytest.raises(InvalidMessage, match="nested deeper than 200 levels"):
        decode(opening * 5000)


def test_an_integer_too_long_is_an_invalid_message() -> None:
    assert decode(b"9" * 4300) == int("9" * 4300)
    with pytest.raises(InvalidMessage, match="an integer of more than 4300 digits"):
        decode(b"9" * 4301)


DEEP = "[" * 300 + "]" * 300
LONG = "9" * 4301


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (f'{{"jsonrpc":"2.0","id":7,"result":{{"a":{DEEP}}}}}', 7),
        (f'{{"id": 7, "jsonrpc": "2.0", "error": {DEEP}}}', 7),
        (f' {{ "id" : 7 , "result" : {DEEP} }}', 7),
        (f'{{"jsonrpc":"2.0","result":{{"id":3,"a":{DEEP}}},"id":7}}', 7),
        (f'{{"result":{DEEP},"id": 7, "jsonrpc": "2.0"}}\n', 7),
        (f'{{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{DEEP}}}', None),
        (f'{{"jsonrpc":"2.0","method":"x","params":{{"id":7,"a":{DEEP}}}}}', None),
        (f'{{"jsonrpc":"2.0","id":"seven","result":{DEEP}}}', None),
        (DEEP, None),
        (f'{{"jsonrpc":"2.0","id":7,"result":{{"a":{LONG}}}}}', 7),
        (f'{{"jsonrpc":"2.0","result":{{"a":{LONG}}},"id":7}}', 7),
        ('{"jsonrpc":"2.0","id":7,"result":{"content":[', 7),
        (f'answering {{"result":{{"a":{LONG}}},"id":7}}', None),
        (f"[{LONG}]", None),
    ],
)
def test_what_cannot_be_read_tells_whose_answer_it_would_be(message: str, request_id: Optional[int]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(message.encode())
    assert caught.value.request_id == request_id


def test_nesting_of_150_levels_is_read() -> None:
    assert decode(b"[" * 151 + b"]" * 151) == nested(150)
