import type { ValidationItem } from "../../contract/error.ts";
import { type Echoes, locationOf } from "./echo.ts";

/** One walk through one part of a request. `path` grows and shrinks as it descends. */
export interface Walk {
  path: (string | number)[];
  problems: ValidationItem[];
  echoes: Echoes;
}

/** Returns the normalized value and adds problems to `walk.problems`. */
export type Check = (value: unknown, walk: Walk) => unknown;

/** Maximum problems in one response. Clients fix a few at a time, and a large body must not produce a million. */
const problemsMax = 100;

/** Maximum depth of a free-form object. Kubernetes objects stay below 20. */
export const nestingMax = 64;

/** Adds a problem at the current path. */
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
    loc: locationOf(walk.path),
    msg,
    input: walk.echoes.of(input, walk.path),
    ...(ctx === undefined ? {} : { ctx }),
  });
}

/** Adds a missing field. The problem repeats the enclosing object, or null for parameters. */
export function reportMissing(walk: Walk, enclosing: unknown): undefined {
  if (walk.problems.length >= problemsMax) return;
  const input = walk.echoes.of(enclosing, walk.path.slice(0, -1));
  walk.problems.push({ type: "missing", loc: locationOf(walk.path), msg: "Field required", input });
}
