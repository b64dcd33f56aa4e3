/** The same examples every time, so that a test that passes today passes tomorrow; FAST_CHECK_SEED has others. */

import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env["FAST_CHECK_SEED"] ?? 1) });
