import { createHmac } from "node:crypto";

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Returns a JSON Web Token signed like the key of a service. */
export function signServiceKey(
  claims: object,
  { secret, header = { alg: "HS256", typ: "JWT" } }: { secret: string; header?: object },
): string {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}
