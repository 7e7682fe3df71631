/** What stands for a value nobody should read over a shoulder or in a CI log. */
export const mask = "**********";

/** A copy in which the value of every entry under `secrets` is masked, however deep. */
export function maskSecrets<T>(data: T): T {
  return JSON.parse(
    JSON.stringify(data, (key, value) => (key === "secrets" && Array.isArray(value) ? value.map(maskOne) : value)),
  ) as T;
}

const maskOne = (secret: object) => ("value" in secret ? { ...secret, value: mask } : secret);
