import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { AwsV4Signer } from "aws4fetch";
import { pause } from "../base/pause.ts";
import { ObjectStorageError } from "./object-storage-error.ts";
import { sendPlain } from "./plain-request.ts";

/** One bucket of a service that speaks the S3 protocol. */
export interface BucketSettings {
  /** Base URL of the service. The bucket is the first part of the path. */
  endpoint: string;
  region: string;
  bucket: string;
  /** Prefix of all keys: "" or a text that ends in a slash. */
  prefix: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** An object that is being read. */
export interface StoredObject {
  content: Readable;
  sizeBytes: number;
}

/** Limit for an attempt without a large body. Uploads and downloads have the deadline of their caller. */
const answerTimeoutMs = 30_000;
/** Longest life of a signed URL. */
const signedSecondsMax = 7 * 86_400;
/** Most keys that S3 lists at once. */
const pageKeys = 1_000;
/** A larger file is sent in parts, because S3 takes at most 5 GiB at once. */
const wholeBytesMax = 1024 * 1024 * 1024;
/** S3 takes at most 10,000 parts of at least 5 MiB: up to 312 GiB. One part is in memory at a time. */
const partBytes = 32 * 1024 * 1024;
/** Attempts to send one part, and the limit for each. */
const partTriesMax = 3;
const partTimeoutMs = 5 * 60_000;
const partPauseMs = 1_000;
/** Limit for joining the parts, which takes longer the more there are. */
const joinTimeoutMs = 10 * 60_000;

/**
 * Stores files as objects of a bucket (Amazon S3 API reference: PutObject, GetObject, DeleteObject, ListObjectsV2).
 * `aws4fetch` signs the requests. A redirect counts as a refusal. The operator names the service, so its address is not checked
 * like those of users.
 */
export class ObjectStorage {
  readonly #settings: BucketSettings;

  constructor(settings: BucketSettings) {
    this.#settings = settings;
  }

  /** Checks address, bucket and credentials. @throws ObjectStorageError */
  async check(signal: AbortSignal): Promise<void> {
    await this.#list("", { signal, max: 1 });
  }

  /**
   * Stores a file. The service compares the content with its digest, so a file that was damaged on the way is refused.
   * @param file.sha256 hex
   * @throws ObjectStorageError
   */
  async put(
    key: string,
    file: { path: string; sha256: string; sizeBytes: number },
    signal: AbortSignal,
  ): Promise<void> {
    if (file.sizeBytes > wholeBytesMax) return this.putStream(key, () => createReadStream(file.path), signal);
    const answer = await this.#call("PUT", this.#urlOf(key), {
      headers: { "x-amz-content-sha256": file.sha256, "content-type": "application/gzip" },
      sent: { "content-length": file.sizeBytes },
      body: createReadStream(file.path),
      signal,
    });
    answer.resume();
    if (answer.statusCode !== 200) throw this.#refused(answer.statusCode, "store an object");
  }

  /**
   * Stores a stream of unknown length in parts (CreateMultipartUpload, UploadPart, CompleteMultipartUpload). The object appears when
   * the stream has ended. A stream that fails leaves none.
   * @param open opens the stream, once the bucket has accepted the object
   * @throws ObjectStorageError; the error of the stream
   */
  async putStream(key: string, open: () => AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const address = this.#urlOf(key);
    const { UploadId: uploadId = "" } = await this.#exchangeXml(
      "POST",
      `${address}?uploads=`,
      "",
      withDeadline(signal),
    );
    const query = `uploadId=${encodeURIComponent(uploadId)}`;
    try {
      const tags: string[] = [];
      for await (const part of partsOf(open())) {
        signal.throwIfAborted();
        tags.push(await this.#putPart(`${address}?partNumber=${tags.length + 1}&${query}`, part, signal));
      }
      const parts = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`);
      const list = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
      const ending = AbortSignal.any([signal, AbortSignal.timeout(joinTimeoutMs)]);
      const { ETag: tag } = await this.#exchangeXml("POST", `${address}?${query}`, list, ending);
      // S3 also reports failures of this call with the status 200.
      if (tag === undefined) throw this.#refused(200, "join the parts of an object");
    } catch (error) {
      // Parts that stay take space until the bucket's lifecycle rule removes them.
      await this.#call("DELETE", `${address}?${query}`, { signal: AbortSignal.timeout(answerTimeoutMs) }).then(
        (answer) => answer.resume(),
        () => {},
      );
      throw error;
    }
  }

  /** Sends one part. @returns its ETag */
  async #putPart(address: string, part: Buffer, signal: AbortSignal): Promise<string> {
    const sha256 = createHash("sha256").update(part).digest("hex");
    for (let tries = 1; ; tries += 1) {
      const sent = this.#call("PUT", address, {
        headers: { "x-amz-content-sha256": sha256 },
        sent: { "content-length": part.length },
        body: Readable.from([part], { objectMode: false }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(partTimeoutMs)]),
      });
      const answer = await sent.catch((error: unknown) => {
        if (signal.aborted || tries === partTriesMax) throw error;
        return null;
      });
      answer?.resume();
      if (answer?.statusCode === 200 && answer.headers.etag !== undefined) return answer.headers.etag;
      if (answer !== null && ((answer.statusCode ?? 0) < 500 || tries === partTriesMax))
        throw this.#refused(answer.statusCode, "store a part of an object");
      await pause(partPauseMs, signal);
    }
  }

  /** Sends a request with an XML body, or none. @returns the texts of the elements that the answer has once */
  async #exchangeXml(
    method: string,
    address: string,
    body: string,
    signal: AbortSignal,
  ): Promise<Record<string, string>> {
    const answer = await this.#call(method, address, {
      headers: { "x-amz-content-sha256": createHash("sha256").update(body).digest("hex") },
      sent: { "content-length": Buffer.byteLength(body) },
      body: Readable.from([Buffer.from(body)], { objectMode: false }),
      signal,
    });
    const read = await text(answer);
    if (answer.statusCode !== 200) throw this.#refused(answer.statusCode, "store an object in parts");
    return Object.fromEntries([...read.matchAll(/<(\w+)>([^<]*)<\/\1>/g)].map(([, name, value]) => [name, value]));
  }

  /** Returns whether there is an object. @throws ObjectStorageError */
  async has(key: string, signal: AbortSignal): Promise<boolean> {
    return (await this.#list(key, { signal, max: 1 })).includes(key);
  }

  /** Returns a URL from which anybody who has it can read one object for `lifeMs`. */
  async presign(key: string, lifeMs: number): Promise<string> {
    const url = new URL(this.#urlOf(key));
    url.searchParams.set("X-Amz-Expires", String(Math.min(Math.ceil(lifeMs / 1_000), signedSecondsMax)));
    return (await this.#sign("GET", url.href, { signQuery: true })).url.href;
  }

  /** Opens an object, which the caller reads or destroys. @returns undefined when there is none. @throws ObjectStorageError */
  async open(key: string, signal: AbortSignal): Promise<StoredObject | undefined> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new DOMException("no answer", "TimeoutError")), answerTimeoutMs);
    const ending = AbortSignal.any([signal, late.signal]);
    // Reading the object may take longer than its first byte.
    const answer = await this.#call("GET", this.#urlOf(key), { signal: ending }).finally(() => clearTimeout(timer));
    if (answer.statusCode === 200) return { content: answer, sizeBytes: Number(answer.headers["content-length"]) };
    answer.resume();
    if (answer.statusCode === 404) return undefined;
    throw this.#refused(answer.statusCode, "read an object");
  }

  /** Writes an object to a new file. @returns false when there is no such object. @throws ObjectStorageError */
  async fetchTo(key: string, target: string, signal: AbortSignal): Promise<boolean> {
    const found = await this.open(key, signal);
    if (found === undefined) return false;
    await pipeline(found.content, createWriteStream(target, { flags: "wx", mode: 0o600 }), { signal });
    return true;
  }

  /** Returns up to 1,000 keys below a prefix, in order. @throws ObjectStorageError */
  list(prefix: string, signal: AbortSignal): Promise<string[]> {
    return this.#list(prefix, { signal, max: pageKeys });
  }

  /** Deletes an object. One that is gone already is not an error. @throws ObjectStorageError */
  async remove(key: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#call("DELETE", this.#urlOf(key), { signal: withDeadline(signal) });
    answer.resume();
    const isGone = answer.statusCode === 204 || answer.statusCode === 200 || answer.statusCode === 404;
    if (!isGone) throw this.#refused(answer.statusCode, "delete an object");
  }

  /** Deletes all objects below a prefix. @throws ObjectStorageError */
  async removeAll(prefix: string, signal: AbortSignal): Promise<void> {
    let keys: string[];
    do {
      keys = await this.#list(prefix, { signal, max: pageKeys });
      for (const key of keys) await this.remove(key, signal);
    } while (keys.length === pageKeys);
  }

  /** Returns up to `max` keys below a prefix, without the prefix of this installation. */
  async #list(prefix: string, { signal, max }: { signal: AbortSignal; max: number }): Promise<string[]> {
    const { prefix: own } = this.#settings;
    const url = new URL(this.#urlOf(""));
    url.search = new URLSearchParams({ "list-type": "2", "max-keys": String(max), prefix: own + prefix }).toString();
    const answer = await this.#call("GET", url.href, { signal: withDeadline(signal) });
    const body = await text(answer);
    if (answer.statusCode !== 200) throw this.#refused(answer.statusCode, "list the bucket");
    // Keys are ids and fixed names, which XML does not escape.
    const keys = [...body.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key = ""]) => key);
    return keys.filter((key) => key.startsWith(own)).map((key) => key.slice(own.length));
  }

  async #call(
    method: string,
    address: string,
    call: { headers?: Record<string, string>; sent?: OutgoingHttpHeaders; body?: Readable; signal: AbortSignal },
  ): Promise<IncomingMessage> {
    const { url, headers } = await this.#sign(method, address, { headers: call.headers ?? {} });
    const { body, signal } = call;
    try {
      const sent = { ...Object.fromEntries(headers), ...call.sent };
      return await sendPlain(url, { method, headers: sent, signal, ...(body !== undefined && { body }) });
    } catch (error) {
      throw this.#unreachable(error, signal);
    }
  }

  #sign(method: string, url: string, more: { headers?: Record<string, string>; signQuery?: boolean }) {
    const { accessKeyId, secretAccessKey, region } = this.#settings;
    return new AwsV4Signer({ method, url, accessKeyId, secretAccessKey, region, service: "s3", ...more }).sign();
  }

  #urlOf(key: string): string {
    const { endpoint, bucket, prefix } = this.#settings;
    const path = [bucket, ...(key === "" ? [] : (prefix + key).split("/"))].map(encodeURIComponent).join("/");
    return `${endpoint.replace(/\/+$/, "")}/${path}`;
  }

  #unreachable(error: unknown, signal: AbortSignal): unknown {
    if (signal.aborted && signal.reason?.name !== "TimeoutError") return signal.reason;
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    const { endpoint } = this.#settings;
    return new ObjectStorageError(
      `The object storage at ${endpoint} does not answer (${reason}). Check PIERHEAD_S3_ENDPOINT.`,
      null,
      { cause: error },
    );
  }

  #refused(status: number | undefined, act: string): ObjectStorageError {
    const { bucket, endpoint } = this.#settings;
    const next =
      status === 403
        ? "Check PIERHEAD_S3_ACCESS_KEY_ID, PIERHEAD_S3_SECRET_ACCESS_KEY and PIERHEAD_S3_REGION, and that the key may list, read, write and delete in the bucket"
        : status === 404
          ? "Create the bucket, or check PIERHEAD_S3_BUCKET"
          : "See the log of the object storage";
    return new ObjectStorageError(
      `The object storage at ${endpoint} answered ${status} to a request to ${act} of bucket '${bucket}'. ${next}.`,
      status ?? null,
    );
  }
}

const withDeadline = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]);

/** Joins the pieces of a stream to parts of equal size. Only the last one is smaller; an empty stream is one empty part. */
async function* partsOf(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  // One buffer for all parts, because each part was sent when the next one begins.
  const part = Buffer.alloc(partBytes);
  let filled = 0;
  let count = 0;
  for await (const piece of stream) {
    for (let from = 0; from < piece.length; ) {
      const taken = piece.subarray(from, from + partBytes - filled);
      part.set(taken, filled);
      filled += taken.length;
      from += taken.length;
      if (filled < partBytes) continue;
      yield part;
      count += 1;
      filled = 0;
    }
  }
  if (filled > 0 || count === 0) yield part.subarray(0, filled);
}
