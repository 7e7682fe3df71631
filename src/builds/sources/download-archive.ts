import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { sendPlain } from "../../integrations/plain-request.ts";
import { BuildFailure } from "../failure.ts";
import { gone } from "./archive.ts";

/**
 * Downloads an uploaded archive from object storage to a new file. The URL is a credential and is never shown.
 * @returns `target`
 * @throws BuildFailure `FetchFailed`
 */
export async function downloadArchive(url: string, target: string, signal: AbortSignal): Promise<string> {
  const answer = await sendPlain(new URL(url), { method: "GET", signal }).catch((error: NodeJS.ErrnoException) => {
    signal.throwIfAborted();
    throw unavailable(error.code ?? error.message);
  });
  if (answer.statusCode !== 200) {
    answer.resume();
    throw answer.statusCode === 404
      ? gone("is gone from the object storage")
      : unavailable(`status ${answer.statusCode}`);
  }
  await pipeline(answer, createWriteStream(target, { flags: "wx", mode: 0o600 }), { signal }).catch(
    (error: NodeJS.ErrnoException) => {
      signal.throwIfAborted();
      throw error.code === "ENOSPC" ? error : unavailable(error.message);
    },
  );
  return target;
}

const unavailable = (reason: string) =>
  new BuildFailure(
    "FetchFailed",
    `The object storage did not give the uploaded archive (${reason}). Deploy again once it answers.`,
  );
