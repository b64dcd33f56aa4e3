"""A node's introduction: it signs which identity it has, and which charter."""

from ccesa import labels
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import KEY_BYTES, Identity
from ccesa.crypto import primitives
from ccesa.errors import ConfigError


def introduce(identity: Identity, node: int, challenge: bytes, charter: bytes) -> bytes:
    """Return a node's public key, and a signature that it is here now: nobody takes the place of another.

    ``charter`` is the digest of the node's own copy.
    """
    return identity.public + identity.sign(_text(node, challenge, charter))


def client_of(charter: Charter, node: int, challenge: bytes, introduction: bytes) -> int:
    """Return the client that a node is under this charter; ConfigError says why it is none."""
    client = charter.admission.id_of(introduction[:KEY_BYTES])
    text = _text(node, challenge, charter.digest)
    try:
        primitives.verify(charter.admission.key(client), introduction[KEY_BYTES:], text)
    except primitives.BadSignature as error:
        raise ConfigError("it does not have the key that it names, or has another charter") from error
    return client


def _text(node: int, challenge: bytes, charter: bytes) -> bytes:
    return labels.frame(labels.FLOWER_INTRODUCTION, str(node).encode(), challenge, charter)
