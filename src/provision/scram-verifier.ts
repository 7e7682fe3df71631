import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

/** PostgreSQL's own default (`scram_iterations`). A password of ours has 256 random bits and needs no slow hash. */
const iterations = 4_096;

/**
 * What PostgreSQL keeps of a password (RFC 5802, RFC 7677). Given to `PASSWORD` instead of the password itself, so that no
 * log or statistic of the server ever contains it.
 */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const keyOf = (label: string) => createHmac("sha256", salted).update(label).digest();
  const storedKey = createHash("sha256").update(keyOf("Client Key")).digest("base64");
  const serverKey = keyOf("Server Key").toString("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
