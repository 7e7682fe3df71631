import { sql } from "kysely";
import type { Db } from "../engine/database.ts";

/** How long a person may take at the identity provider. */
export const signInLifeMs = 10 * 60_000;

/** Notes that a browser went to the identity provider. Those that came back too late, or never, go. */
export async function insertSignIn(db: Db, tokenHash: Buffer): Promise<void> {
  await sql`
    with over as (delete from sign_ins where expires_at <= now())
    insert into sign_ins (token_hash, expires_at)
    values (${tokenHash}, now() + ${signInLifeMs} * interval '1 millisecond')`.execute(db.kysely);
}

/** Ends a sign-in, whatever comes of it. @returns whether it was begun here, is not over, and was not ended before. */
export async function takeSignIn(db: Db, tokenHash: Buffer): Promise<boolean> {
  const { rows } = await sql`
    delete from sign_ins where token_hash = ${tokenHash} and expires_at > now() returning 1`.execute(db.kysely);
  return rows.length > 0;
}
