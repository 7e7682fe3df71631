import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

/** PostgreSQL's default (`scram_iterations`). Our passwords have 256 random bits, so they need no slower hash. */
const iterations = 4_096;

/**
 * Returns the verifier that PostgreSQL stores for a password (RFC 5802, RFC 7677). It is passed to `PASSWORD` instead of
 * the password itself, which therefore never appears in logs or statistics of the server.
 */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const keyOf = (label: string) => createHmac("sha256", salted).update(label).digest();
  const storedKey = createHash("sha256").update(keyOf("Client Key")).digest("base64");
  const serverKey = keyOf("Server Key").toString("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
