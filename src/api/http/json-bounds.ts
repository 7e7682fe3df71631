import { JsonBounds as Bounds } from "../../base/json-bounds.ts";
import { errors } from "../../contract/error.ts";

/** Bounds the body of a request, so that a hostile one is refused before it is parsed. */
export class JsonBounds {
  readonly #limits: { valuesMax: number; depthMax: number };
  readonly #bounds: Bounds;

  constructor(limits: { valuesMax: number; depthMax: number }) {
    this.#limits = limits;
    this.#bounds = new Bounds(limits);
  }

  /** Scans the next bytes of the text. @throws ApiError 400 `bodyTooDeep`, 413 `bodyTooManyValues`. */
  scan(bytes: Uint8Array): void {
    const exceeded = this.#bounds.scan(bytes);
    if (exceeded === "depth") throw errors.bodyTooDeep(this.#limits.depthMax);
    if (exceeded === "values") throw errors.bodyTooManyValues(this.#limits.valuesMax);
  }
}
