import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Main program of the second container of a build: pushes the image that the first one left as an OCI layout, and writes its
 * digest to the termination log. It runs in Pierhead's own image with the credentials of the registry, which no program of
 * the project has seen, and runs nothing from the image. Files of the layout are not trusted: links are not followed, and
 * contents are checked against their digests.
 *
 *     node push-image.js <layout> <repository> <tag>
 */
interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

const callTimeoutMs = 600_000;

/** A registry that restarts or limits its callers must not cost a whole build. */
const attemptsMax = 5;
const retryAfterMs = 1_000;
const documentBytesMax = 4 * 1024 * 1024;
const terminationLog = process.env["PIERHEAD_TERMINATION_LOG"] ?? "/dev/termination-log";
const credentialsFile = process.env["PIERHEAD_REGISTRY_AUTH_FILE"] ?? "";
const scheme = process.env["PIERHEAD_REGISTRY_INSECURE"] === "true" ? "http" : "https";

async function main([layout = "", repository = "", tag = ""]: string[]): Promise<void> {
  const [host = "", ...names] = repository.split("/");
  const registry = new Registry(host, names.join("/"), await readCredential(host));
  const index = JSON.parse((await readDocument(path.join(layout, "index.json"))).toString());
  const [top] = index.manifests as Descriptor[];
  if (top === undefined) throw new Error("the builder left no image");
  const { manifest, content } = await readManifest(layout, top);
  for (const blob of [...manifest.layers, manifest.config]) await retry(() => pushBlob(registry, layout, blob));
  await retry(() => registry.putManifest(tag, content, manifest.mediaType ?? top.mediaType));
  const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  console.log(`pushed ${repository}:${tag}`);
  await writeFile(terminationLog, JSON.stringify({ image: `${repository}@${digest}` }));
}

/** Repeats a call while the registry does not answer or has a temporary problem, with longer and longer pauses. */
async function retry(act: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (attempt === attemptsMax || !isTemporary(error)) throw error;
      console.log(`${(error as Error).message}: trying again`);
      await sleep(retryAfterMs * 2 ** (attempt - 1));
    }
  }
}

/** `fetch` throws a TypeError with a cause when there is no answer. */
const isTemporary = (error: unknown): boolean =>
  error instanceof Refusal
    ? error.status >= 500 || error.status === 429
    : error instanceof TypeError && error.cause !== undefined;

/** Returns the manifest of an image, also when an index of platforms and attestations leads to it. */
async function readManifest(layout: string, top: Descriptor) {
  const content = await readBlob(layout, top.digest);
  const document = JSON.parse(content.toString());
  if (!Array.isArray(document.manifests)) return { manifest: document, content };
  const isImage = ({ platform }: { platform?: { os?: string } }) => platform?.os !== "unknown";
  return readManifest(layout, document.manifests.find(isImage));
}

async function pushBlob(registry: Registry, layout: string, { digest, size }: Descriptor): Promise<void> {
  if (await registry.hasBlob(digest)) return;
  const file = await openBlob(layout, digest);
  try {
    if ((await file.stat()).size !== size) throw new Error(`${digest} has another size than its manifest says`);
    await registry.putBlob(digest, file, size);
  } finally {
    await file.close();
  }
}

function openBlob(layout: string, digest: string): Promise<FileHandle> {
  const [, hex] = /^sha256:([0-9a-f]{64})$/.exec(digest) ?? [];
  if (hex === undefined) throw new Error("the image names a blob by something else than a sha256 digest");
  return open(path.join(layout, "blobs", "sha256", hex), constants.O_RDONLY | constants.O_NOFOLLOW);
}

async function readBlob(layout: string, digest: string): Promise<Buffer> {
  const file = await openBlob(layout, digest);
  const content = await readOpened(file);
  if (`sha256:${createHash("sha256").update(content).digest("hex")}` !== digest)
    throw new Error(`${digest} has another content`);
  return content;
}

const readDocument = async (file: string) => readOpened(await open(file, constants.O_RDONLY | constants.O_NOFOLLOW));

async function readOpened(file: FileHandle): Promise<Buffer> {
  try {
    if ((await file.stat()).size > documentBytesMax) throw new Error("a document of the image is too large");
    return await file.readFile();
  } finally {
    await file.close();
  }
}

interface Credential {
  username: string;
  password: string;
}

/** Reads the credential for a registry from a docker `config.json`; null: none. */
async function readCredential(host: string): Promise<Credential | null> {
  if (credentialsFile === "") return null;
  const text = await readFile(credentialsFile, "utf8").catch((cause: Error) => {
    const rule = "must exist in the namespace of builds, with the type kubernetes.io/dockerconfigjson";
    throw new Error(`the Secret that builds.registrySecret names ${rule}`, { cause });
  });
  const { auths = {} } = JSON.parse(text);
  const hosts = host === "docker.io" ? [host, "https://index.docker.io/v1/"] : [host, `https://${host}`];
  const found = hosts.map((one) => auths[one]).find((one) => one !== undefined);
  if (found === undefined) return null;
  if (found.auth === undefined) return { username: found.username, password: found.password };
  const [username = "", ...rest] = Buffer.from(found.auth, "base64").toString().split(":");
  return { username, password: rest.join(":") };
}

/** One repository of a registry that speaks the OCI distribution API. */
class Registry {
  readonly #base: string;
  readonly #repository: string;
  readonly #credential: Credential | null;
  #authorization: string | null = null;

  constructor(host: string, repository: string, credential: Credential | null) {
    this.#base = `${scheme}://${host === "docker.io" ? "registry-1.docker.io" : host}`;
    this.#repository = repository;
    this.#credential = credential;
  }

  async hasBlob(digest: string): Promise<boolean> {
    const answer = await this.#send("HEAD", `/v2/${this.#repository}/blobs/${digest}`, {});
    if (answer.status !== 200 && answer.status !== 404) throw refusal(answer, "");
    return answer.status === 200;
  }

  async putBlob(digest: string, file: FileHandle, size: number): Promise<void> {
    const begun = await this.#expect(202, "POST", `/v2/${this.#repository}/blobs/uploads/`, {});
    const target = new URL(begun.headers.get("location") ?? "", this.#base);
    target.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream", "content-length": String(size) };
    // A stream cannot be sent twice, but the registry has just accepted the authorization.
    const body = file.readableWebStream() as ReadableStream;
    await this.#expect(201, "PUT", target.href, { headers, body, duplex: "half" });
  }

  async putManifest(tag: string, content: Buffer, type: string): Promise<void> {
    const path = `/v2/${this.#repository}/manifests/${tag}`;
    await this.#expect(201, "PUT", path, { headers: { "content-type": type }, body: new Uint8Array(content) });
  }

  async #expect(status: number, method: string, target: string, init: Init): Promise<Response> {
    const answer = await this.#send(method, target, init);
    if (answer.status !== status) throw refusal(answer, (await answer.text()).slice(0, 500));
    return answer;
  }

  async #send(method: string, target: string, init: Init): Promise<Response> {
    const answer = await this.#sendOnce(method, target, init);
    if (answer.status !== 401 || init.duplex !== undefined) return answer;
    this.#authorization = await this.#authorize(answer.headers.get("www-authenticate") ?? "");
    return this.#sendOnce(method, target, init);
  }

  #sendOnce(method: string, target: string, { headers = {}, ...init }: Init): Promise<Response> {
    const url = new URL(target, this.#base);
    // A registry may store uploads elsewhere. Its credential must not go there.
    const isOwn = url.origin === new URL(this.#base).origin;
    const authorization = isOwn && this.#authorization !== null ? { authorization: this.#authorization } : {};
    const signal = AbortSignal.timeout(callTimeoutMs);
    return fetch(url, { method, ...init, headers: { ...headers, ...authorization }, signal } as RequestInit);
  }

  /** Answers the registry's challenge, by the credential itself or by a token that it gets for it. */
  async #authorize(challenge: string): Promise<string | null> {
    const credential = this.#credential;
    const basic =
      credential === null
        ? null
        : `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString("base64")}`;
    if (!/^bearer /i.test(challenge)) return basic;
    const given = Object.fromEntries(
      [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
    );
    const url = new URL(given["realm"] ?? "");
    if (given["service"] !== undefined) url.searchParams.set("service", given["service"]);
    url.searchParams.set("scope", given["scope"] ?? `repository:${this.#repository}:pull,push`);
    const headers = basic === null ? {} : { authorization: basic };
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(callTimeoutMs) });
    if (!answer.ok) throw refusal(answer, "");
    const { token, access_token: accessToken } = (await answer.json()) as { token?: string; access_token?: string };
    return `Bearer ${token ?? accessToken}`;
  }
}

interface Init {
  headers?: Record<string, string>;
  body?: ReadableStream | Uint8Array;
  duplex?: "half";
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const refusal = ({ status }: Response, text: string) =>
  new Refusal(
    status,
    status === 401 || status === 403
      ? `the registry refuses the push (${status}). Check the credentials in the Secret that builds.registrySecret names`
      : `the registry answered ${status}${text === "" ? "" : `: ${text}`}`,
  );

try {
  await main(process.argv.slice(2));
} catch (error) {
  const message = `The image could not be pushed: ${error instanceof Error ? error.message : error}`;
  const cause = (error as Error).cause;
  const text = cause instanceof Error ? `${message}: ${cause.message}` : message;
  console.error(text);
  await writeFile(terminationLog, JSON.stringify({ message: text.slice(0, 3_000) })).catch(() => {});
  process.exitCode = 1;
}
