import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** The time that a person may take at the identity provider. */
export const signInLifeMs = 10 * 60_000;

/** Records that a browser was sent to the identity provider. Also deletes expired sign-ins. */
export async function insertSignIn(db: Db, tokenHash: Buffer): Promise<void> {
  await db.query(sql`
    with over as (delete from sign_ins where expires_at <= now())
    insert into sign_ins (token_hash, expires_at)
    values (${tokenHash}, now() + ${signInLifeMs} * interval '1 millisecond')`);
}

/** Consumes a sign-in, whether it succeeds or not. @returns whether it was started here, is not expired and not consumed before. */
export async function consumeSignIn(db: Db, tokenHash: Buffer): Promise<boolean> {
  const { rows } = await db.query(sql`
    delete from sign_ins where token_hash = ${tokenHash} and expires_at > now() returning 1`);
  return rows.length > 0;
}
