"""Vectors under their masks in Chromium: in workers, and in a page that may have neither them nor wasm."""

import hashlib
from random import Random
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from ccesa.crypto.masks import Mask, masked
from runners import PACKAGE, built, served

#: Masks a vector; says what the page may have, and how often it had its turn meanwhile.
SCRIPT = """async ({ bytes, bits, generator, keys, signs }) => {
  const { Workers } = await import("/build/src/worker/host.js");
  const { Thread } = await import("/build/src/worker/threads.js");
  const thread = await Thread.start();
  const module = WebAssembly.compile(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
  const may = { workers: thread !== undefined, wasm: await module.then(() => true, () => false) };
  thread?.end();
  const workers = new Workers(2);
  const vector = Uint8Array.from({ length: bytes }, (_, at) => at % 251);
  const masks = keys.map((key, at) => ({ key: Uint8Array.from(key), sign: signs[at] }));
  let [turns, told] = [0, 0];
  const { port1, port2 } = new MessageChannel();  // a timer may have no turn on a busy machine
  port1.onmessage = () => { turns++; port2.postMessage(0); };
  port2.postMessage(0);
  await workers.mask(vector, bits, generator, masks, { progress: (done) => (told = done) });
  port1.close();
  workers.close();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", vector));
  return { ...may, turns, told, digest: [...digest] };
}"""
BYTES = 9 << 18
KEY_BYTES = {"aes128-ctr": 16, "chacha20": 32}
#: By the name of a page, whether it may have workers and WebAssembly.
PAGES = {"page.html": True, "strict.html": False}


@pytest.mark.parametrize(
    ("page", "generator", "bits"),
    # Modules of packages, of which ChaCha20 is one, are found by a page's map, and workers have none.
    [("page.html", "aes128-ctr", 32), ("page.html", "chacha20", 64), ("strict.html", "aes128-ctr", 16)],
)
def test_vectors_are_masked_as_in_python(page: str, generator: str, bits: int, browser: Browser) -> None:
    draw = Random(bits)
    keys = [draw.randbytes(KEY_BYTES[generator]) for _ in range(30)]
    signs = [draw.choice((1, -1)) for _ in keys]
    asked = {"bytes": BYTES, "bits": bits, "generator": generator, "keys": [*map(list, keys)], "signs": signs}
    found = in_page(browser, page, asked)
    vector = (np.arange(BYTES) % 251).astype(np.uint8).view(f"<u{bits // 8}")
    masks = [Mask(key, sign) for key, sign in zip(keys, signs, strict=True)]
    assert bytes(found["digest"]) == hashlib.sha256(masked(vector, masks, generator).tobytes()).digest()
    assert found["told"] == BYTES
    assert found["turns"] > 0
    assert found["workers"] == found["wasm"] == PAGES[page]


def in_page(browser: Browser, name: str, asked: dict[str, Any]) -> Any:
    """Run the script in a page."""
    built("build/src/worker/ccesa-worker.js")
    with served(PACKAGE) as address, browser.new_page() as page:
        page.goto(f"{address}/test/{name}")
        return page.evaluate(SCRIPT, asked)
