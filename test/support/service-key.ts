import { createHmac } from "node:crypto";

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A JSON Web Token as services sign it. */
export function signServiceKey(
  claims: object,
  { secret, header = { alg: "HS256", typ: "JWT" } }: { secret: string; header?: object },
): string {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}
