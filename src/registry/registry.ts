import { rm } from "node:fs/promises";
import type { Logger } from "../telemetry/log.ts";
import { repositoryPrefix, type Signer, signAccess, tokenUser } from "./access-token.ts";
import { findGone, findUnneeded, type Needed, unlinkImages } from "./pushed-images.ts";
import { RegistryProcess } from "./registry-process.ts";
import { RegistryDoor, type Upstream } from "./registry-proxy.ts";

/** The image types that docker and its relatives push. */
const manifestTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

const askTimeoutMs = 10_000;

/** What is read of a list of images, of an image, and of its configuration. */
interface ImageJson {
  manifests?: { digest: string }[];
  config?: { digest?: string; Labels?: Record<string, string> | null };
}

/** Manifests and configurations of images are a few KB. */
const jsonBytesMax = 1024 * 1024;

/** Docker retries a part of a push for a few minutes. */
const quietMinMs = 600_000;

/** A registry that runs here, or how to reach one of the operator's elsewhere. */
export type RegistryPlace = { directory: string; program: string } | (() => Promise<Upstream>);

/** Images of deployments, below `r/<deployment id>/`, behind a door. */
export class Registry {
  readonly signer: Signer;
  readonly door: RegistryDoor;
  readonly #upstream: () => Promise<Upstream>;
  /** Null: it runs elsewhere. */
  readonly #process: RegistryProcess | null;

  constructor({ place, signer, logger }: { place: RegistryPlace; signer: Signer; logger: Logger }) {
    this.signer = signer;
    const own = typeof place === "function" ? null : new RegistryProcess({ ...place, logger });
    this.#process = own;
    this.#upstream =
      typeof place === "function"
        ? place
        : async () => ({ origin: `http://127.0.0.1:${await own?.port()}`, prefix: "", login: null });
    this.door = new RegistryDoor({ signer, logger, upstream: this.#upstream });
  }

  /**
   * @param reference tag or digest.
   * @returns the digest of an image; null when there is none.
   * @throws Error when the registry does not say.
   */
  async findDigest(deploymentId: string, name: string, reference: string): Promise<string | null> {
    const answer = await this.#ask("HEAD", await this.#repository(deploymentId, name), `manifests/${reference}`);
    return answer.ok ? answer.headers.get("docker-content-digest") : null;
  }

  /**
   * Labels of an image; of a list of images, those of the first.
   * @returns nothing when what was pushed cannot be read.
   * @throws Error when the registry does not say: whether an image keeps state of its own hangs on its labels.
   */
  async readLabels(deploymentId: string, name: string, digest: string): Promise<Record<string, string>> {
    const repository = await this.#repository(deploymentId, name);
    const read = (place: string) => this.#readJson(repository, place);
    const found = await read(`manifests/${digest}`);
    const part = found?.manifests?.[0]?.digest;
    const manifest = part === undefined ? found : await read(`manifests/${part}`);
    const config = manifest?.config?.digest;
    return (config === undefined ? null : await read(`blobs/${config}`))?.config?.Labels ?? {};
  }

  async #repository(deploymentId: string, name: string): Promise<string> {
    return `${(await this.#upstream()).prefix}${repositoryPrefix(deploymentId)}${name}`;
  }

  /** Whoever pushed it decided what it says, and how long it is. */
  async #readJson(repository: string, place: string): Promise<ImageJson | null> {
    if (!/^\w+\/sha256:[0-9a-f]{64}$/.test(place)) return null;
    const answer = await this.#ask("GET", repository, place);
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

  /** @throws Error when the registry is not well: what it has is not known then. */
  async #ask(method: "GET" | "HEAD", repository: string, place: string): Promise<Response> {
    const { origin, login } = await this.#upstream();
    const ask = async () => {
      const authorization = await login?.authorization([`repository:${repository}:pull`]);
      const headers = { accept: manifestTypes, ...(authorization != null && { authorization }) };
      const signal = AbortSignal.timeout(askTimeoutMs);
      return fetch(`${origin}/v2/${repository}/${place}`, { method, headers, signal });
    };
    let answer = await ask();
    if (answer.status === 401 && login !== null) {
      // What it gave us before may be good for nothing by now, as after a restart with other keys.
      await answer.body?.cancel();
      login.forget();
      answer = await ask();
    }
    if (answer.status !== 429 && answer.status < 500) return answer;
    await answer.body?.cancel();
    throw new Error(`the image registry at ${new URL(origin).host} answers ${answer.status}`);
  }

  /** What the container engine pulls a deployment's images with. */
  pullCredential(deploymentId: string): { username: string; password: string } {
    return { username: tokenUser, password: signAccess(this.signer, { deploymentId, kind: "pull" }) };
  }

  /**
   * Removes images that nothing needs, and what only they consist of; elsewhere that is the operator's to do. Not while somebody pushes: blobs that no image names
   * yet would go as well.
   * @param options.quietMs nobody has pushed for so long
   * @returns how many images.
   */
  async sweep(
    needed: Needed,
    { quietMs = quietMinMs, signal }: { quietMs?: number; signal?: AbortSignal } = {},
  ): Promise<number> {
    const own = this.#process;
    if (own === null) return 0;
    const { blobsDir } = own;
    if (this.door.quietForMs < quietMs) return 0;
    const isTidy = (await findUnneeded(blobsDir, needed)).length + (await findGone(blobsDir, needed)).length === 0;
    if (isTidy) return 0;
    let count = 0;
    await own.whilePaused(async () => {
      // Requests wait meanwhile; whoever pushed since the first look is in the second.
      const unneeded = await findUnneeded(blobsDir, needed);
      await unlinkImages(unneeded);
      for (const directory of await findGone(blobsDir, needed)) await rm(directory, { recursive: true, force: true });
      await own.collectGarbage(signal);
      count = unneeded.length;
    });
    return count;
  }

  async close(): Promise<void> {
    this.door.close();
    await this.#process?.stop();
  }
}

/** Takes apart the name of an image in this registry, whatever host it was pushed through. */
export function parseOwnImage(uri: string): { deploymentId: string; name: string; reference: string } | null {
  const [, deploymentId, name, tag, digest] =
    /^[^/]+\/r\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/([^:@]+)(?::([^@]+))?(?:@(.+))?$/.exec(uri) ?? [];
  if (deploymentId === undefined || name === undefined) return null;
  return { deploymentId, name, reference: digest ?? tag ?? "latest" };
}
