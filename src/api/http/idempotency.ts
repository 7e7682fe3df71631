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

/** A response as it is sent. */
export type EncodedResponse = Omit<SavedResponse, "requestDigest">;

/** Makes the row that saves a response. */
export type MakeResponseRow = (answer: EncodedResponse) => SealedResponse;

/** A request with an `Idempotency-Key`: a retry returns the saved response without running it again. */
export interface IdempotentRequest extends IdempotencyKey {
  /** Digest of the parsed request, so that whitespace, key order and unknown keys do not matter. */
  digest: string;
}

/**
 * Runs a request unless the same key ran before. A retry gets the first response, byte for byte. The effect and its
 * saved response commit together. Of concurrent requests with one key, the later ones wait for the first. A refusal has
 * no effect and is not saved.
 *
 * Nothing is looked up first, because nearly every request is the first with its key. A key that is already in use
 * makes the statement fail that saves the response, which rolls back the effect.
 *
 * @param task.savesResponse Whether `act` itself writes the row of `makeRow` in the statement that has the effect: one
 *   round trip instead of four. Otherwise `act` runs inside a transaction.
 * @throws ApiError 409 `idempotencyKeyReused` when the key belongs to a different request. Rethrows errors of `act`
 *   when no response is saved.
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
    // Any error may come from an equal request that ran first: it may have taken the name, or already moved the status.
    const saved = await findSavedResponse(db, sealer, request);
    if (saved === undefined) throw error;
    if (saved.requestDigest !== request.digest) throw errors.idempotencyKeyReused();
    return { answer: saved, isReplayed: true };
  }
}

/**
 * Returns the idempotency key of a request with the digest of what it asks for; undefined without a key.
 * @param target.parts Parsed parameters, query and body, and the user where the result depends on the user.
 * @throws ApiError 422 for an invalid key, because the client relies on the key it sends.
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
