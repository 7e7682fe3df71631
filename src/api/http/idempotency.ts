import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { errors } from "../../contract/error.ts";
import { idempotencyHeader } from "../../contract/headers.ts";
import type { Operation } from "../../contract/operation.ts";
import type { Db } from "../../store/engine/database.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import {
  findSavedResponse,
  type IdempotencyKey,
  type SavedResponse,
  type SealedResponse,
  saveResponse,
  sealResponse,
} from "../../store/tenants/idempotency-keys.ts";
import { compileValidator } from "../validation/validate.ts";

/** An answer as it goes out. */
export type EncodedResponse = Omit<SavedResponse, "requestDigest">;

/** Makes the row that the answer is kept in. */
export type MakeResponseRow = (answer: EncodedResponse) => SealedResponse;

/** A request that its client may send again, to be answered again without being done again. */
export interface IdempotentRequest extends IdempotencyKey {
  /** Of the request as it was understood: blanks, the order of keys and unknown ones do not matter. */
  digest: string;
}

/**
 * Does what is asked unless it was done before under the same key, and answers as the first time, word for word: the
 * effect and its answer are one commit. Of requests at the same time, the others wait for the first. A refusal had no
 * effect and is not kept.
 *
 * Nothing is looked up beforehand, as nearly every request is the first of its key: a key in use makes the statement
 * fail that keeps the answer, which undoes the rest.
 *
 * @param task.savesResponse `act` writes what `keep` makes in the statement that has the effect: a round trip instead of
 *   four. Otherwise `act` runs within a transaction.
 * @throws ApiError 409 `idempotencyKeyReused` for another request; what `act` throws when nothing is kept.
 */
export async function runOnce(
  { db, sealer }: { db: Db; sealer: Sealer },
  task: {
    request: IdempotentRequest;
    savesResponse: boolean;
    act: (makeRow: MakeResponseRow) => Promise<EncodedResponse>;
  },
): Promise<{ answer: EncodedResponse; isReplayed: boolean }> {
  const { request, act } = task;
  const makeRow: MakeResponseRow = (answer) =>
    sealResponse(sealer, request, { requestDigest: request.digest, ...answer });
  const actAndSave = async () => {
    const answer = await act(makeRow);
    await saveResponse(db, makeRow(answer));
    return answer;
  };
  try {
    return { answer: await (task.savesResponse ? act(makeRow) : db.atomically(actAndSave)), isReplayed: false };
  } catch (error) {
    // Whatever failed: an equal request before this one may have taken the name, or moved what this one wanted to move.
    const saved = await findSavedResponse(db, sealer, request);
    if (saved === undefined) throw error;
    if (saved.requestDigest !== request.digest) throw errors.idempotencyKeyReused();
    return { answer: saved, isReplayed: true };
  }
}

/**
 * The key of a request, with what tells it from other requests; undefined when it has none.
 * @param target.parts Parameters, query and body as they were understood; the user too, where he counts.
 * @throws ApiError 422 for a key that cannot be used: whoever sends one relies on it.
 */
export function idempotentRequestOf(
  request: FastifyRequest,
  target: { scopeId: string; operation: Operation; parts: unknown },
): IdempotentRequest | undefined {
  const header = request.headers["idempotency-key"];
  if (header === undefined) return undefined;
  const { value, problems } = readHeader({ "idempotency-key": [String(header)] });
  if (problems.length > 0) throw errors.invalidRequest(problems);
  const { "idempotency-key": key } = value as { "idempotency-key": string };
  const text = JSON.stringify([target.operation.id, target.parts]);
  return { scopeId: target.scopeId, key, digest: hash("sha256", text, "base64url") };
}

const readHeader = compileValidator(Type.Object({ "idempotency-key": idempotencyHeader }), "header");
