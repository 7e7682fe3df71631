/** What stands for a value nobody should read over a shoulder or in a CI log. */
export const mask = "**********";

/** Fields that hold a secret by themselves, wherever they stand. */
const secretFields: ReadonlySet<string> = new Set([
  ...["client_secret", "access_token", "refresh_token", "token", "ssh_key"],
]);

/** A copy in which secret fields and the value of every entry under `secrets` are masked, however deep. */
export function maskSecrets<T>(data: T): T {
  return JSON.parse(
    JSON.stringify(data, (key, value) => {
      if (key === "secrets" && Array.isArray(value)) return value.map(maskOne);
      return secretFields.has(key) && typeof value === "string" ? mask : value;
    }),
  ) as T;
}

const maskOne = (secret: object) => ("value" in secret ? { ...secret, value: mask } : secret);
