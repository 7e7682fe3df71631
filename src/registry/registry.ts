import { rm } from "node:fs/promises";
import type { Logger } from "../telemetry/log.ts";
import { repositoryPrefix, type Signer, signAccess, tokenUser } from "./access-token.ts";
import { findGone, findUnneeded, type Needed, unlinkImages } from "./pushed-images.ts";
import { RegistryProcess } from "./registry-process.ts";
import { RegistryProxy, type Upstream } from "./registry-proxy.ts";
import { fetchOverSocket } from "./socket-fetch.ts";

/** Manifest types that docker and compatible tools push. */
const manifestTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

const requestTimeoutMs = 10_000;

/** Fields that are read from an image index, a manifest and an image configuration. */
interface ImageJson {
  manifests?: { digest: string }[];
  config?: { digest?: string; Labels?: Record<string, string> | null };
}

/** Manifests and image configurations are a few KB. */
const jsonBytesMax = 1024 * 1024;

/** Docker retries part of a push for a few minutes. */
const quietMinMs = 600_000;

/** Registry that runs on this machine, or how to reach the operator's registry elsewhere. */
export type RegistryLocation = { directory: string; program: string } | (() => Promise<Upstream>);

/** Images of deployments, below `r/<deployment id>/`, with the proxy that clients use. */
export class Registry {
  readonly signer: Signer;
  readonly proxy: RegistryProxy;
  readonly #upstream: () => Promise<Upstream>;
  /** Null: the registry runs elsewhere. */
  readonly #process: RegistryProcess | null;

  constructor({ location, signer, logger }: { location: RegistryLocation; signer: Signer; logger: Logger }) {
    this.signer = signer;
    const own = typeof location === "function" ? null : new RegistryProcess({ ...location, logger });
    this.#process = own;
    this.#upstream =
      typeof location === "function"
        ? location
        : async () => {
            const socketPath = await (own as RegistryProcess).socket();
            return { origin: "http://registry", socketPath, prefix: "", login: null };
          };
    this.proxy = new RegistryProxy({ signer, logger, upstream: this.#upstream });
  }

  /**
   * Returns the digest of an image, or null if the image does not exist.
   * @param reference tag or digest.
   * @throws Error when the registry does not answer properly.
   */
  async findDigest(deploymentId: string, name: string, reference: string): Promise<string | null> {
    const answer = await this.#request("HEAD", await this.#repository(deploymentId, name), `manifests/${reference}`);
    return answer.ok ? answer.headers.get("docker-content-digest") : null;
  }

  /**
   * Returns the labels of an image, or of the first image of an index. Returns no labels when the image cannot be read.
   * @throws Error when the registry does not answer properly, because the labels decide whether an image has its own state.
   */
  async readLabels(deploymentId: string, name: string, digest: string): Promise<Record<string, string>> {
    const repository = await this.#repository(deploymentId, name);
    const read = (file: string) => this.#readJson(repository, file);
    const found = await read(`manifests/${digest}`);
    const part = found?.manifests?.[0]?.digest;
    const manifest = part === undefined ? found : await read(`manifests/${part}`);
    const config = manifest?.config?.digest;
    return (config === undefined ? null : await read(`blobs/${config}`))?.config?.Labels ?? {};
  }

  async #repository(deploymentId: string, name: string): Promise<string> {
    return `${(await this.#upstream()).prefix}${repositoryPrefix(deploymentId)}${name}`;
  }

  /** Reads a JSON document whose content and length a user decided. Returns null if it is unusable. */
  async #readJson(repository: string, file: string): Promise<ImageJson | null> {
    if (!/^\w+\/sha256:[0-9a-f]{64}$/.test(file)) return null;
    const answer = await this.#request("GET", repository, file);
    let text = "";
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString("latin1");
      if (text.length > jsonBytesMax) return null;
    }
    try {
      return answer.ok ? (JSON.parse(Buffer.from(text, "latin1").toString("utf8")) as ImageJson) : null;
    } catch {
      return null;
    }
  }

  /** @throws Error on 429 and 5xx, because the content of the registry is unknown then. */
  async #request(method: "GET" | "HEAD", repository: string, file: string): Promise<Response> {
    const { origin, socketPath, login } = await this.#upstream();
    const send = async () => {
      const authorization = await login?.authorization([`repository:${repository}:pull`]);
      const headers = { accept: manifestTypes, ...(authorization != null && { authorization }) };
      const signal = AbortSignal.timeout(requestTimeoutMs);
      const url = `${origin}/v2/${repository}/${file}`;
      if (socketPath !== undefined) return fetchOverSocket(socketPath, url, { method, headers, signal });
      return fetch(url, { method, headers, signal });
    };
    let answer = await send();
    if (answer.status === 401 && login !== null) {
      // Cached tokens may be invalid by now, for example after a restart of the registry with other keys.
      await answer.body?.cancel();
      login.forget();
      answer = await send();
    }
    if (answer.status !== 429 && answer.status < 500) return answer;
    await answer.body?.cancel();
    throw new Error(`the image registry at ${new URL(origin).host} answered ${answer.status}`);
  }

  /** Returns the credential with which the container engine pulls a deployment's images. */
  pullCredential(deploymentId: string): { username: string; password: string } {
    return { username: tokenUser, password: signAccess(this.signer, { deploymentId, kind: "pull" }) };
  }

  /**
   * Removes images that nothing needs, and their unshared blobs. Does nothing for a registry elsewhere, which the operator
   * cleans up. Does nothing during or shortly after a push, because it would delete blobs that no image names yet.
   * @param options.quietMs minimum time since the last push
   * @returns the number of removed images.
   */
  async sweep(
    needed: Needed,
    { quietMs = quietMinMs, signal }: { quietMs?: number; signal?: AbortSignal } = {},
  ): Promise<number> {
    const own = this.#process;
    if (own === null) return 0;
    const { blobsDir } = own;
    if (this.proxy.quietForMs < quietMs) return 0;
    const isClean = (await findUnneeded(blobsDir, needed)).length + (await findGone(blobsDir, needed)).length === 0;
    if (isClean) return 0;
    let count = 0;
    await own.whilePaused(async () => {
      // Requests wait now. This second search includes images that were pushed since the first one.
      const unneeded = await findUnneeded(blobsDir, needed);
      await unlinkImages(unneeded);
      for (const directory of await findGone(blobsDir, needed)) await rm(directory, { recursive: true, force: true });
      await own.collectGarbage(signal);
      count = unneeded.length;
    });
    return count;
  }

  async close(): Promise<void> {
    this.proxy.close();
    await this.#process?.stop();
  }
}

/** Splits the name of an image in this registry, whatever host it was pushed through. Returns null for any other image. */
export function parseOwnImage(uri: string): { deploymentId: string; name: string; reference: string } | null {
  const [, deploymentId, name, tag, digest] =
    /^[^/]+\/r\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/([^:@]+)(?::([^@]+))?(?:@(.+))?$/.exec(uri) ?? [];
  if (deploymentId === undefined || name === undefined) return null;
  return { deploymentId, name, reference: digest ?? tag ?? "latest" };
}
