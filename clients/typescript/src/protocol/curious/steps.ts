/** The steps of the guard `curious`. */

export { advertise } from "./0-advertise.js";
export { share } from "./1-share.js";
export { accept } from "./1a-accept.js";
export { mask, maskAtOnce } from "./2-mask.js";
export { unmask } from "./3-unmask.js";
