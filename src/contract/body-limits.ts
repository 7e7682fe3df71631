const kib = 1_024;
const mib = 1_024 * kib;

/** Limits of a request body. The server reads no further than they allow. */
export interface BodyLimits {
  bytesMax: number;
  /** Members of objects and items of lists, at every depth. Parsing costs time for each of them, however short. */
  valuesMax: number;
}

/** Maximum nesting of a JSON body. Free-form objects end 64 levels deep, so no accepted body comes near. */
export const bodyDepthMax = 100;

/**
 * Limits of bodies by kind of operation. The worst body within each must occupy the event loop for less than 50 ms:
 * `npm run bench -- bodies`.
 */
export const bodyLimits = {
  /** Operations without a key, and those that read no field of a body. */
  small: { bytesMax: 16 * kib, valuesMax: 1_000 },
  /** Operations with a key. */
  keyed: { bytesMax: 256 * kib, valuesMax: 10_000 },
  /** 1 MiB of secrets with escapes, 4,096 names of them and as many references, and a `resource_spec`. */
  deployment: { bytesMax: 2 * mib, valuesMax: 30_000 },
  /** A batch of 1,000 log lines or samples. A listener halves a batch that is refused. */
  report: { bytesMax: 2 * mib, valuesMax: 30_000 },
  /** A push with a thousand commits. The server finds larger pushes when it polls the branch. */
  hostMessage: { bytesMax: mib, valuesMax: 30_000 },
} as const satisfies Record<string, BodyLimits>;
