/** Replacement for a secret value in terminal output and CI logs. */
export const mask = "**********";

/** Names of fields that hold a secret, at any depth. */
const secretFields: ReadonlySet<string> = new Set([
  ...["client_secret", "access_token", "refresh_token", "token", "ssh_key"],
]);

/** Names of lists of variables, of which only the names are shown. */
const variableLists: ReadonlySet<string> = new Set(["secrets", "set"]);

/** Returns a copy with masked secret fields and masked values of variables, at any depth. */
export function maskSecrets<T>(data: T): T {
  return JSON.parse(
    JSON.stringify(data, (key, value) => {
      if (variableLists.has(key) && Array.isArray(value)) return value.map(maskOne);
      return secretFields.has(key) && typeof value === "string" ? mask : value;
    }),
  ) as T;
}

const maskOne = (secret: object) => ("value" in secret ? { ...secret, value: mask } : secret);
