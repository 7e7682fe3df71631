import type { ValidationItem } from "../../contract/error.ts";
import { echo } from "./echo.ts";

/** One walk over one part of a request. `path` grows and shrinks while it descends. */
export interface Walk {
  path: (string | number)[];
  problems: ValidationItem[];
}

/** Gives back the normalised value; what is wrong goes to `walk.problems`. */
export type Check = (value: unknown, walk: Walk) => unknown;

/** Problems told in one answer. A client mends a few at a time, and a body of 8 MiB must not answer a million. */
export const problemsMax = 100;

/** Depth of a free object. Kubernetes objects stay below 20. */
export const nestingMax = 64;

/** Adds a problem at the place the walk has reached. */
export function report(
  walk: Walk,
  type: string,
  msg: string,
  input: unknown,
  ctx?: Record<string, unknown>,
): undefined {
  if (walk.problems.length >= problemsMax) return;
  walk.problems.push({
    type,
    loc: [...walk.path],
    msg,
    input: echo(input, walk.path),
    ...(ctx === undefined ? {} : { ctx }),
  });
}

/** A field that is not there; what is repeated is the object it is missing in, null for parameters. */
export function reportMissing(walk: Walk, enclosing: unknown): undefined {
  if (walk.problems.length >= problemsMax) return;
  const input = echo(enclosing, walk.path.slice(0, -1));
  walk.problems.push({ type: "missing", loc: [...walk.path], msg: "Field required", input });
}
