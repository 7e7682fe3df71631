import {
  type CipherKey,
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  randomUUID,
} from "node:crypto";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** A sealed value, and the id of the data key that opens it. `sealed` = version, nonce, tag, ciphertext (AES-256-GCM). */
export interface Sealed {
  keyId: string;
  sealed: Buffer;
}

/**
 * Seals values under data keys. The database stores these keys wrapped by the master key; the unwrapped ones are in memory,
 * so sealing and opening need no database.
 */
export interface Sealer {
  /** @param boundTo the owner of the value, e.g. `secrets/<tenant>/<deployment>`: the value opens with the same text only. */
  seal(plaintext: Buffer, boundTo: string): Sealed;
  /** @throws SealError when the key is unknown, the value was changed, or it belongs to something else. */
  open(value: Sealed, boundTo: string): Buffer;
  /**
   * Returns 32 bytes for each data key in use, the active one first: the same on every server, different for each purpose.
   * A data key is in use until an hour after another one replaced it.
   */
  deriveKeys(purpose: string): { keyId: string; bytes: Buffer }[];
  /** The key that `seal` uses. Values under another key can be resealed. */
  readonly activeKeyId: string;
  /** Creates a new data key. It becomes active once every server knows it (30 s on PostgreSQL). @returns its id. */
  rotateDataKey(): Promise<string>;
  /** Reads the list of data keys now. On PostgreSQL this also happens every 10 s. */
  refresh(): Promise<void>;
  close(): void;
}

/** A column with sealed values, described so that they can be resealed under another data key. */
export interface SealedColumn {
  table: string;
  /** Its primary key. */
  id: string;
  keyColumn: string;
  column: string;
  /** The columns that determine what a value is bound to, and the function that does. */
  boundBy: readonly string[];
  boundTo(row: Record<string, unknown>): string;
}

/** A sealed value or data key that does not open. The message never contains the value. */
export class SealError extends Error {
  override readonly name = "SealError";
}

export const masterKeyBytes = 32;

/** How often servers read the list of data keys. A new key is used after three times that, when every server can open it. */
const refreshIntervalMs = 10_000;
const activationMs = 3 * refreshIntervalMs;

/** What was signed with a key derived from a replaced data key can be verified for this long. */
const derivedOverlapMs = 3_600_000;

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + nonceBytes + tagBytes;

/**
 * Opens a sealer: unwraps the data keys, and creates the first one if there is none.
 * @param previous the previous master key: data keys wrapped by it are rewrapped with the new one.
 * @throws SealError when the keys in the database were wrapped by another master key.
 */
export async function openSealer(db: Db, masterKey: Buffer, previous: Buffer | null = null): Promise<Sealer> {
  for (const key of [masterKey, previous]) {
    if (key !== null && key.length !== masterKeyBytes) {
      throw new SealError(`the master key must have ${masterKeyBytes} bytes`);
    }
  }
  const ring = new KeyRing(db, masterKey, previous);
  await ring.ensureFirst();
  await ring.rewrap();
  await ring.refresh();
  const refresh = () =>
    ring.refresh().catch(() => {
      // The database is down, or a key is under a newer master key. The keys that this server knows keep working.
    });
  const timer = db.kind === "postgres" ? setInterval(refresh, refreshIntervalMs).unref() : undefined;
  return {
    seal: (plaintext, boundTo) => ({ keyId: ring.active.id, sealed: encrypt(ring.active.key, plaintext, boundTo) }),
    open: (value, boundTo) => decrypt(ring.find(value.keyId), value.sealed, boundTo),
    deriveKeys: (purpose) =>
      ring.inUse.map(({ id, key }) => ({
        keyId: id,
        bytes: Buffer.from(hkdfSync("sha256", key, Buffer.alloc(0), purpose, masterKeyBytes)),
      })),
    get activeKeyId() {
      return ring.active.id;
    },
    rotateDataKey: () => ring.rotate(),
    refresh: () => ring.refresh(),
    close: () => clearInterval(timer),
  };
}

/** The unwrapped data keys by id, and the active one. Key objects, because raw bytes would cost 12 us more per call. */
class KeyRing {
  readonly #db: Db;
  readonly #masterKey: Buffer;
  readonly #previous: Buffer | null;
  readonly #keys = new Map<string, KeyObject>();
  readonly #retiredAt = new Map<string, Date | null>();
  #active: { id: string; key: KeyObject } | undefined;

  constructor(db: Db, masterKey: Buffer, previous: Buffer | null) {
    this.#db = db;
    this.#masterKey = masterKey;
    this.#previous = previous;
  }

  get active(): { id: string; key: KeyObject } {
    if (this.#active === undefined) throw new SealError("there is no data key");
    return this.#active;
  }

  /** The active key and the others that were not replaced an hour ago. */
  get inUse(): { id: string; key: KeyObject }[] {
    const since = this.#db.now().getTime() - derivedOverlapMs;
    const others = [...this.#retiredAt].filter(
      ([id, at]) => id !== this.active.id && (at === null || at.getTime() > since),
    );
    return [this.active, ...others.map(([id]) => ({ id, key: this.find(id) }))];
  }

  find(id: string): KeyObject {
    const key = this.#keys.get(id);
    if (key === undefined) throw new SealError(`data key ${id} is not known`);
    return key;
  }

  /** Creates the first key. Of servers that start together, one creates it; the others wait for its commit and find it. */
  async ensureFirst(): Promise<void> {
    await this.#db.transaction(async (trx) => {
      await trx.query(sql`lock table data_keys in share row exclusive mode`);
      const { rows } = await trx.query(sql`select 1 from data_keys limit 1`);
      if (rows.length === 0) await this.#insert(trx);
    });
  }

  async refresh(): Promise<void> {
    const { rows } = await this.#db.query<{
      id: string;
      wrapped: Buffer;
      master_key_id: string;
      retired_at: Date | null;
      is_settled: boolean;
    }>(sql`
      select id, wrapped, master_key_id, retired_at, created_at <= now() - ${this.#activationMs} * interval '1 millisecond' as is_settled
        from data_keys order by created_at desc, id`);
    for (const row of rows) {
      if (!this.#keys.has(row.id)) this.#keys.set(row.id, createSecretKey(this.#unwrap(row)));
      this.#retiredAt.set(row.id, row.retired_at);
    }
    const inUse = rows.find((row) => row.is_settled) ?? rows.at(-1);
    if (inUse !== undefined) this.#active = { id: inUse.id, key: this.find(inUse.id) };
  }

  async rotate(): Promise<string> {
    const id = await this.#db.transaction(async (trx) => {
      await trx.query(sql`update data_keys set retired_at = now() where retired_at is null`);
      return this.#insert(trx);
    });
    await this.refresh();
    return id;
  }

  /** Rewraps the keys under the previous master key. Servers that still run with that one already know their data keys. */
  async rewrap(): Promise<void> {
    const previous = this.#previous;
    if (previous === null) return;
    await this.#db.transaction(async (trx) => {
      const { rows } = await trx.query<WrappedKey>(sql`
        select id, wrapped, master_key_id from data_keys where master_key_id = ${masterKeyId(previous)}
         order by id for update`);
      for (const row of rows) {
        const wrapped = wrap(this.#masterKey, { id: row.id, key: this.#unwrap(row) });
        await trx.query(sql`update data_keys set wrapped = ${wrapped}, master_key_id = ${masterKeyId(this.#masterKey)}
                   where id = ${row.id}`);
      }
    });
  }

  /** Unwraps a key under either master key, because a server that still runs with the previous one may create another. */
  #unwrap(row: WrappedKey): Buffer {
    const isUnderPrevious = this.#previous !== null && row.master_key_id === masterKeyId(this.#previous);
    return unwrap(isUnderPrevious ? (this.#previous as Buffer) : this.#masterKey, row);
  }

  async #insert(trx: Trx): Promise<string> {
    const made = { id: randomUUID(), key: randomBytes(32) };
    await trx.query(sql`
      insert into data_keys (id, wrapped, master_key_id)
      values (${made.id}, ${wrap(this.#masterKey, made)}, ${masterKeyId(this.#masterKey)})`);
    return made.id;
  }

  /** With a single server a new key is known everywhere at once. */
  get #activationMs(): number {
    return this.#db.kind === "embedded" ? 0 : activationMs;
  }
}

interface WrappedKey {
  id: string;
  wrapped: Buffer;
  master_key_id: string;
}

const wrap = (masterKey: Buffer, { id, key }: { id: string; key: Buffer }) => encrypt(masterKey, key, `data-key/${id}`);

function unwrap(masterKey: Buffer, row: WrappedKey): Buffer {
  const given = masterKeyId(masterKey);
  if (row.master_key_id !== given) {
    throw new SealError(
      `the secrets in this database are under master key ${row.master_key_id}, but ${given} was given: ` +
        "start with the PIERHEAD_MASTER_KEY (or master key file) that belongs to this database, " +
        "or give that one as PIERHEAD_PREVIOUS_MASTER_KEY to replace it",
    );
  }
  return decrypt(masterKey, row.wrapped, `data-key/${row.id}`);
}

/** Returns an identifier of a master key that reveals nothing about it. */
function masterKeyId(masterKey: Buffer): string {
  return createHmac("sha256", masterKey).update("pierhead master key id").digest("hex").slice(0, 16);
}

/** Encrypts with a random nonce: with 2^32 values under one data key the chance of a repeat is 2^-33 (NIST SP 800-38D, 8.3). */
function encrypt(key: CipherKey, plaintext: Buffer, boundTo: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(boundTo));
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([Buffer.of(version), nonce, cipher.getAuthTag(), ciphertext]);
}

function decrypt(key: CipherKey, sealed: Buffer, boundTo: string): Buffer {
  if (sealed.length < headBytes || sealed[0] !== version) throw new SealError("not a sealed value of this version");
  const nonce = sealed.subarray(1, 1 + nonceBytes);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes })
    .setAAD(Buffer.from(boundTo))
    .setAuthTag(sealed.subarray(1 + nonceBytes, headBytes));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(headBytes)), decipher.final()]);
  } catch {
    throw new SealError("the value was changed, belongs to something else, or was sealed under another key");
  }
}
