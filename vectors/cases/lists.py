"""lists.json: admission lists, files of identities and charters at the edge of what is allowed."""

from cases.charters import charters
from cases.common import Case
from cases.identities import identity, in_base64, lines
from cases.signatures import small_encodings
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Admission
from ccesa.errors import ConfigError

DESCRIPTION = (
    "Text that people write and programs read. admission_lists: a list with its members in order, or the "
    "name of the refusal. identity_files: the same, with seed and name. charters: texts with the digest "
    "of the charter, or the refusal. The text of a file is read as it is: no line end and no mark is "
    "changed before."
)
#: What some programs take for the end of a line, a space, or nothing at all.
ODD = {
    "CR without LF": "\r\r",
    "VT": "\v",
    "FF": "\f",
    "NUL": "\0",
    "ESC": "\x1b",
    "U+0085": "\x85",
    "DEL": "\x7f",
    "no-break space": "\xa0",
    "soft hyphen": "\xad",
    "Arabic letter mark": "\u061c",
    "Ogham space": "\u1680",
    "Mongolian vowel separator": "\u180e",
    "em space": "\u2003",
    "zero width space": "\u200b",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "right-to-left override": "\u202e",
    "word joiner": "\u2060",
    "ideographic space": "\u3000",
    "private use": "\ue000",
    "no character": "\ufdd0",
    "byte order mark": "\ufeff",
    "replacement character": "\ufffd",
    "control of shorthand": "\U0001bca0",
    "control of musical notation": "\U0001d173",
    "tag": "\U000e0041",
}
#: Around the ranges, and what other tables may not know yet.
FINE = "\xa1\xac\xae\u061b\u061d\u167f\u1681\u180d\u180f\u1fff\u2010\u2027\u2030\u205e\u2070\u2fff\u3001\uf900"
FINER = "\ud7ff\ufdcf\ufdf0\ufefe\uff00\uffef\U00010000\U0001bc9f\U0001bca4\U0001d172\U0001d17b\U000dffff\u0378"


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "admission_lists": [_list(*case) for case in _lists().items()],
        "identity_files": [_file(*case) for case in _files().items()],
        "charters": [_charter(*case) for case in _charters().items()],
    }


def _lists() -> dict[str, str]:
    a, b = lines("hospital-a", "hospital-b")
    name, key = a.split()
    found = {
        "a mark at the beginning": f"\ufeff{a}\n{b}\n",
        "two marks at the beginning": f"\ufeff\ufeff{a}\n",
        "LF, CR LF, no end": f"{a}\n\r\n{b}\r\n# end",
        "CR at the very end": f"{a}\n{b}\r",
        "spaces and tabs everywhere": f" \t{name}\t \t{key}  a \t comment\t \n\t\n {b}",
        "a key right after the name": f"{name}{key}\n",
        "an empty comment": f"{a} \n{b}\t\r\n",
        "a comment with #": f"{a} # a comment\n",
        "a name with #": f"x#y {key}\n",
        "a name that begins with #": f"#x {key}\n{b}\n",
        "a name that begins the file of a private key": f"ccesa-identity-1 {key}\n",
        "a name that begins so, of another version": f"ccesa-identity-x {key}\n",
        "a name that begins nearly so": f"ccesa-identit {key}\n",
        "characters beside those that are refused": f"{FINE} {key} {FINER}\n",
        "a key with a space in it": f"{name} {key[:20]} {key[20:]}\n",
        "a key of 44 characters with other bits at its end": f"{name} {key[:42]}{chr(ord(key[42]) + 1)}=\n",
        "a key with padding in its middle": f"{name} {key[:4]}={key[5:]}\n",
        "a key outside ASCII": f"{name} é{key[1:]}\n",
    }
    places = {
        "in a name": f"hos{{}}pital {key}\n",
        "between name and key": f"{name}{{}}{key}\n",
        "in a comment": f"{a} com{{}}ment\n",
        "in a skipped line": f"{a}\n# com{{}}ment\n",
        "at the end of a line": f"{a}{{}}\n{b}\n",
        "in place of a line end": f"{a}{{}}{b}\n",
    }
    for what, odd in ODD.items():
        for where, text in places.items():
            if where in ("in a name", "in a skipped line") or what in _LINE_ENDS:
                found[f"{what} {where}"] = text.format(odd)
    for form, public in small_encodings().items():
        found[f"a key of low order: {form}"] = f"{a}\nmallory {in_base64(public)}\n"
    found["a key that is not reduced"] = f"{a}\nmallory {in_base64((2**255 - 1).to_bytes(32, 'little'))}\n"
    return found


_LINE_ENDS = ("CR without LF", "VT", "FF", "U+0085", "no-break space", "line separator", "byte order mark")


def _list(name: str, text: str) -> Case:
    try:
        members = Admission.parse(text).members
    except ConfigError:
        return {"name": name, "text": text, "error": "ConfigError"}
    found = [{"name": one.name, "public": one.public, "comment": one.comment} for one in members]
    return {"name": name, "text": text, "members": found}


def _files() -> dict[str, tuple[str, str | None]]:
    """Give texts with the name in them, or None where they are refused."""
    key = in_base64(identity("0").seed)
    return {
        "no name": (f"ccesa-identity-1 {key}\n", ""),
        "a name": (f"ccesa-identity-1 {key} hôpital\n", "hôpital"),
        "no line end": (f"ccesa-identity-1 {key} a", "a"),
        "CR LF, tabs and spaces": (f"\tccesa-identity-1\t {key} a \r\n", "a"),
        "a mark at the beginning": (f"\ufeffccesa-identity-1 {key} a\n", "a"),
        "the longest name": (f"ccesa-identity-1 {key} {'ü' * 64}\n", "ü" * 64),
        "a name of 129 bytes": (f"ccesa-identity-1 {key} {'ü' * 64}a\n", None),
        "two names": (f"ccesa-identity-1 {key} a b\n", None),
        "a name with #": (f"ccesa-identity-1 {key} #a\n", None),
        "a name that begins the file of a private key": (f"ccesa-identity-1 {key} ccesa-identity-1\n", None),
        "a no-break space": (f"ccesa-identity-1\xa0{key}\n", None),
        "a form feed": (f"ccesa-identity-1 {key}\f\n", None),
        "CR without LF": (f"ccesa-identity-1 {key}\r", None),
        "a name with an escape": (f"ccesa-identity-1 {key} a\x1bb\n", None),
        "other bits at the end of the key": (f"ccesa-identity-1 {key[:42]}{chr(ord(key[42]) + 1)}=\n", None),
        "no padding": (f"ccesa-identity-1 {key[:-1]}\n", None),
    }


def _file(reason: str, case: tuple[str, str | None]) -> Case:
    text, name = case
    told = {"error": "ConfigError"} if name is None else {"seed": identity("0").seed, "holder": name}
    return {"name": reason, "text": text, **told}


def _charters() -> dict[str, str]:
    plain = str(charters()["plain"])
    seats = plain[plain.index("members = [") : plain.index("\n]\n") + 3]
    second = seats.splitlines()[2]
    learning = plain.replace("bits = 32", "bits = 64") + "\n[learning]\n"
    low, high = in_base64(bytes(32)), in_base64((2**255 - 1).to_bytes(32, "little"))
    changes = {
        "attempts 1001": ("attempts = 2", "attempts = 1001"),
        "attempts 1000": ("attempts = 2", "attempts = 1000"),
        "attempts true": ("attempts = 2", "attempts = true"),
        "bits as text": ("bits = 32", 'bits = "32"'),
        "bits as a fraction": ("bits = 32", "bits = 32.0"),
        "serial as a fraction": ("serial = 1", "serial = 1.0"),
        "no version": ("version = 2\n", ""),
        "version true": ("version = 2", "version = true"),
        "expired since 1970": ("2100-01-01T00:00:00Z", "0"),
        "expires as text": ("2100-01-01T00:00:00Z", '"2100-01-01"'),
        "expires true": ("2100-01-01T00:00:00Z", "true"),
        "expires at a time of day": ("2100-01-01T00:00:00Z", "12:00:00"),
        "expires beyond 2^53": ("2100-01-01T00:00:00Z", str(2**53)),
        "another generator": ("aes128-ctr", "chacha20"),
        "an unknown generator": ("aes128-ctr", "aes256-ctr"),
        "more survivors than members": ("min_survivors = 3", "min_survivors = 6"),
        "two survivors": ("min_survivors = 3", "min_survivors = 2"),
        "survivors as a fraction": ("min_survivors = 3", "min_survivors = 3.0"),
        "a graph of a word": ('[graph]\ntype = "complete"\n', ""),
        "a threshold of none": ('[threshold]\ntype = "majority"\n', ""),
        "an unknown threshold": ('type = "majority"', 'type = "minority"'),
        "a threshold with a field too many": ('type = "majority"', 'type = "majority"\nt = 3'),
        "fixed without t": ('type = "majority"', 'type = "fixed"'),
        "fixed, as many as can confirm": ('type = "majority"', 'type = "fixed"\nt = 4'),
        "fixed, t as a fraction": ('type = "majority"', 'type = "fixed"\nt = 4.0'),
        "linear, as many as can confirm": ('type = "majority"', 'type = "linear"\nslope = 0\nbase = 4'),
        "linear, more than can confirm": ('type = "majority"', 'type = "linear"\nslope = 0\nbase = 5'),
        "harary": ('type = "complete"', 'type = "harary"\ndegree = 4'),
        "harary, odd": ('type = "complete"', 'type = "harary"\ndegree = 3'),
        "harary, as many as members": ('type = "complete"', 'type = "harary"\ndegree = 6'),
        "harary, degree as a fraction": ('type = "complete"', 'type = "harary"\ndegree = 4.0'),
        "harary without a degree": ('type = "complete"', 'type = "harary"'),
        "erdos-renyi, p as a whole number": ('type = "complete"', 'type = "erdos-renyi"\np = 1'),
        "erdos-renyi, mean degree below 1": ('type = "complete"', 'type = "erdos-renyi"\np = 0.2'),
        "erdos-renyi, thin masks": ('type = "complete"', 'type = "erdos-renyi"\np = 0.9\nmask_p = 0.5'),
        "erdos-renyi, p above 1": ('type = "complete"', 'type = "erdos-renyi"\np = 1.5'),
        "erdos-renyi, p as text": ('type = "complete"', 'type = "erdos-renyi"\np = "0.9"'),
        "a member of three": (second, second.replace("],", ', "more"],')),
        "a member of numbers": (second, "    [1, 2],"),
        "a name with a space": (second, second.replace("client-1", "client 1")),
        "a name with a tab": (second, second.replace("client-1", "client\\t1")),
        "a name with a no-break space": (second, second.replace("client-1", "client\\u00A01")),
        "a name with #": (second, second.replace("client-1", "#client")),
        "an empty name": (second, second.replace("client-1", "")),
        "a name of a private key": (second, second.replace("client-1", "ccesa-identity-1")),
        "a name twice": ("client-1", "client-2"),
        "a key of 31 bytes": (second, f'    ["client-1", "{in_base64(bytes(range(31)))}"],'),
        "a key of 33 bytes": (second, f'    ["client-1", "{in_base64(bytes(range(33)))}"],'),
        "a key of low order": (second, f'    ["client-1", "{low}"],'),
        "a key that is not reduced": (second, f'    ["client-1", "{high}"],'),
        "a key with other bits at its end": (second, second[:-5] + chr(ord(second[-5]) + 1) + second[-4:]),
        "dropout above 1": ("dropout = 0.1", "dropout = 1.5"),
        "dropout below 0": ("dropout = 0.1", "dropout = -0.1"),
        "dropout as text": ("dropout = 0.1", 'dropout = "0.1"'),
        "exact_dropout true": ("exact_dropout = false", "exact_dropout = true"),
        "exact_dropout as a number": ("exact_dropout = false", "exact_dropout = 1"),
        "collusion above 1": ("collusion = 0.1", "collusion = 1.1"),
        "colluders below 0": ("colluders = 1", "colluders = -1"),
        "colluders as a fraction": ("colluders = 1", "colluders = 1.0"),
        "privacy beyond 1024 bits": ("privacy_bits = 128.0", "privacy_bits = 1025.0"),
        "a probability above 1": ("unreliable = -20.25", "unreliable = 0.5"),
        "a probability of nothing": ("unreliable = -20.25", "unreliable = -inf"),
        "an unknown statement": ("dropout = 0.1", "dropout = 0.1\nmore = 1"),
        "a statement is missing": ("least_honest = 2\n", ""),
        "a certificate of a word": ("[certificate]", "[[certificate]]"),
        "a mark at the beginning": ("# The charter", "\ufeff# The charter"),
        "CR LF": ("\n", "\r\n"),
        "CR without LF": ("\n", "\r"),
        "NUL": ("# The charter", "# The\0charter"),
    }
    found = {name: plain.replace(old, new) for name, (old, new) in changes.items()}
    for name, text in found.items():
        if text == plain:
            raise LookupError(f"{name}: nothing was changed")
    told = {
        "learning by default": "",
        "learning, an unknown key": "more = 1",
        "learning, a clip of infinity": "clip = inf",
        "learning, a clip of nan": "clip = nan",
        "learning, a clip below 0": "metric_clip = -1.0",
        "learning, a whole number for a fraction": "clip = 2",
        "learning, a clip as text": 'clip = "2.0"',
        "learning, a message type twice": 'message_types = ["train", "train"]',
        "learning, message types as text": 'message_types = "train"',
        "learning, a message type as a number": "message_types = [1]",
        "learning, a counter twice": 'counters = ["a", "a"]',
        "learning, an empty name": 'metrics = [""]',
        "learning, a name of 100 characters": f'metrics = ["{"m" * 100}"]',
        "learning, a name of 101 characters": f'metrics = ["{"m" * 101}"]',
        "learning, a name with a space": 'weighted_by = "number of examples"',
        "learning, a name with a no-break space": 'weighted_by = "number\\u00A0"',
        "learning, a name with a tab": 'weighted_by = "number\\t"',
        "learning, a weight of none": 'weighted_by = ""',
        "learning, fields of 2 bits for five members": "field_bits = 2",
        "learning, fields of 3 bits for five members": "field_bits = 3",
        "learning, fields of 4 bits for five members": "field_bits = 4",
        "learning, fields of 1 bit": "field_bits = 1",
        "learning, fields of 0 bits": "field_bits = 0",
        "learning, fields of 64 bits": "field_bits = 64",
        "learning, fields of 65 bits": "field_bits = 65",
        "learning, fields as a fraction": "field_bits = 32.0",
        "learning, fields as text": 'field_bits = "32"',
    }
    return found | {name: f"{learning}{line}\n" for name, line in told.items()}


def _charter(name: str, text: str) -> Case:
    try:
        return {"name": name, "text": text, "digest": Charter.parse(text).digest}
    except ConfigError:
        return {"name": name, "text": text, "error": "ConfigError"}
