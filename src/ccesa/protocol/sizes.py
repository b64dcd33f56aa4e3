"""Each field of a message says how large it is, by what it is about."""

from typing import NamedTuple

from ccesa.crypto.keys import AGREEMENTS


class Size(NamedTuple):
    """A field has some bytes anyway, and some for each thing that it is about."""

    constant: int = 0
    #: For each neighbour, or each live one, as the step has it.
    per_neighbour: int = 0
    #: For each neighbour that is named as dropped or accused; nobody knows how many before.
    per_named: int = 0
    per_vector_byte: int = 0
    #: Sets of clients, one bit for each that is enrolled.
    sets: int = 0
    #: Proofs of inclusion, as long as it takes.
    proofs: int = 0
    #: All public keys of one client, as large as the agreement has them; of this one, and of each neighbour.
    bundles: int = 0
    bundles_per_neighbour: int = 0
    #: What is sealed for one neighbour, as large as the agreement has it.
    texts_per_neighbour: int = 0
    #: What is left of a neighbour's seed for whoever rebuilds this client's secret.
    deposits_per_neighbour: int = 0

    @property
    def is_exact(self) -> bool:
        """Tell whether the reader knows the size beforehand."""
        return not (self.per_named or self.proofs)

    def of(
        self,
        *,
        agreement: str,
        clients: int,
        vector_bytes: float,
        neighbours: float,
        named: float = 0,
        proof: float = 0,
    ) -> float:
        """Return the bytes, once it is known how many there are of each; ``proof`` has so many bytes."""
        kind = AGREEMENTS[agreement]
        return (
            self.constant
            + self.bundles * kind.bundle_bytes
            + self.each(agreement) * neighbours
            + self.per_named * named
            + self.per_vector_byte * vector_bytes
            + self.sets * set_bytes(clients)
            + self.proofs * proof
        )

    def each(self, agreement: str) -> int:
        """Return the bytes for each neighbour."""
        kind = AGREEMENTS[agreement]
        return (
            self.per_neighbour
            + self.bundles_per_neighbour * kind.bundle_bytes
            + self.texts_per_neighbour * kind.text_bytes
            + self.deposits_per_neighbour * kind.deposit_bytes
        )


def set_bytes(clients: int) -> int:
    """Return the size of a set of clients: a bit for each that is enrolled."""
    return -(-clients // 8)
