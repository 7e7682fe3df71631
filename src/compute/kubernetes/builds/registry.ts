import { createHash } from "node:crypto";
import { type FileHandle, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Descriptor } from "./oci-layout.ts";

const callTimeoutMs = 600_000;

/** A registry that restarts or limits its callers must not cost a whole build. */
const attemptsMax = 5;
const retryAfterMs = 1_000;

export const manifestType = "application/vnd.oci.image.manifest.v1+json";

/** Opens `registry.example.com/agents` with the credential that the Job mounts. @param environment of a program of the Job */
export async function openRepository(
  repository: string,
  environment: Record<string, string | undefined>,
): Promise<Registry> {
  const [host = "", ...names] = repository.split("/");
  const scheme = environment["PIERHEAD_REGISTRY_INSECURE"] === "true" ? "http" : "https";
  const credential = await readCredential(host, environment["PIERHEAD_REGISTRY_AUTH_FILE"] ?? "");
  return new Registry(
    `${scheme}://${host === "docker.io" ? "registry-1.docker.io" : host}`,
    names.join("/"),
    credential,
  );
}

/** Repeats a call while the registry does not answer or has a temporary problem, with longer and longer pauses. */
export async function retry<T>(act: () => Promise<T>): Promise<T> {
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

/** Whether a registry refuses something for a reason that does not hold for other images. */
export const isAboutOneImage = (error: unknown): boolean =>
  error instanceof Refusal && ![401, 403, 405].includes(error.status) && !isTemporary(error);

interface Credential {
  username: string;
  password: string;
}

/** Reads the credential for a registry from a docker `config.json`; null: none. */
async function readCredential(host: string, credentialsFile: string): Promise<Credential | null> {
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
export class Registry {
  readonly #base: string;
  readonly #repository: string;
  readonly #credential: Credential | null;
  #authorization: string | null = null;

  constructor(base: string, repository: string, credential: Credential | null) {
    this.#base = base;
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

  /** Returns the content of a blob. The caller reads it to its end. */
  async getBlob({ digest }: Descriptor): Promise<ReadableStream> {
    const answer = await this.#expect(200, "GET", `/v2/${this.#repository}/blobs/${digest}`, {});
    return answer.body as ReadableStream;
  }

  /** Returns the manifest of a tag; null: there is none. */
  async getManifest(tag: string): Promise<{ content: Buffer; type: string } | null> {
    const headers = { accept: manifestType };
    const answer = await this.#send("GET", `/v2/${this.#repository}/manifests/${tag}`, { headers });
    const content = Buffer.from(await answer.arrayBuffer());
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw refusal(answer, content.toString().slice(0, 500));
    return { content, type: answer.headers.get("content-type") ?? manifestType };
  }

  /** Returns the digest of the manifest that a tag names; null: there is none. */
  async findDigest(tag: string): Promise<string | null> {
    const found = await this.getManifest(tag);
    return found && `sha256:${createHash("sha256").update(found.content).digest("hex")}`;
  }

  /** Deletes a manifest with all its tags. One that is gone already is not an error. */
  async deleteManifest(digest: string): Promise<void> {
    const answer = await this.#send("DELETE", `/v2/${this.#repository}/manifests/${digest}`, {});
    const text = (await answer.text()).slice(0, 500);
    if (answer.status === 202 || answer.status === 200 || answer.status === 404) return;
    if (answer.status === 405 || /"UNSUPPORTED"/.test(text)) throw new Refusal(405, "the registry deletes no images");
    throw refusal(answer, text);
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
      ? `the registry refuses it (${status}). Check the credentials in the Secret that builds.registrySecret names`
      : `the registry answered ${status}${text === "" ? "" : `: ${text}`}`,
  );
